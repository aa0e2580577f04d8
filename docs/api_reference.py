"""The Python reference, made from the docstrings of what `demiurge` exports: it can't say anything else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import EnumType
from itertools import chain
from types import ModuleType, UnionType
from typing import Any, NewType, get_args

import demiurge
import demiurge.testing
from demiurge.bootstrap.opened_world import OpenedWorld

HEAD = """# Python

Everything a program needs imports from `demiurge` itself. A name is imported when it is first used, so that
`import demiurge` costs next to nothing.

This page is made by `docs/generate.py` from the docstrings.
"""
TESTING = """# demiurge.testing

Tests of code that uses Demiurge import these from `demiurge.testing`; see [testing](testing.md).
"""
_NOT_CODE = re.compile(r"<[^>]*>")
_MODULE = re.compile(r"\b(?:demiurge|typing|collections\.abc|datetime|pathlib)(?:\.[a-z_]+)*\.(?=[A-Z_a-z])")
_WIDTH = 100


def page() -> str:
    """The whole page: what `demiurge` and `demiurge.testing` export, errors last, the rest by name."""
    return "\n".join([HEAD, *_entries(demiurge), TESTING, *_entries(demiurge.testing)])


def _entries(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__, key=lambda name: (_is_error(getattr(module, name)), name.lower())):
        yield _entry(name, getattr(module, name))


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _entry(name: str, value: Any) -> str:
    lines = [f"## {name}", "", f"```python\n{_heading(name, value)}\n```", "", *_text(value)]
    if inspect.isclass(value) and not _is_error(value):
        lines += [line for method in _methods(value) for line in method]
    return "\n".join(lines)


def _heading(name: str, value: Any) -> str:
    if isinstance(value, UnionType):
        names = [member.__name__ for member in get_args(value)]
        line = f"{name} = {' | '.join(names)}"
        return line if len(line) <= _WIDTH else f"{name} = (\n    " + "\n    | ".join(names) + "\n)"
    if not callable(value) or isinstance(value, NewType):
        return f"{name}: {_annotation(value.__supertype__)}" if isinstance(value, NewType) else name
    if _is_error(value):
        return f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
    if getattr(value, "_is_protocol", False):
        return f"class {name}(Protocol)"
    if isinstance(value, EnumType):
        return f"class {name}: {' '.join(member.value for member in value)}"
    return f"{name}{_signature(value)}"


def _signature(value: Any) -> str:
    found = inspect.signature(value)
    kept = [entry for entry in found.parameters.values() if not entry.name.startswith("_") and entry.name != "self"]
    parts = [_parameter(entry) for entry in kept]
    first_keyword = next((at for at, entry in enumerate(kept) if entry.kind is entry.KEYWORD_ONLY), None)
    if first_keyword is not None:
        parts.insert(first_keyword, "*")
    returned = found.return_annotation
    end = "" if returned in (found.empty, None, "None") else f" -> {_annotation(returned)}"
    line = f"({', '.join(parts)}){end}"
    return line if len(line) <= _WIDTH else "(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def _parameter(entry: inspect.Parameter) -> str:
    stars = {entry.VAR_POSITIONAL: "*", entry.VAR_KEYWORD: "**"}.get(entry.kind, "")
    kind = "" if entry.annotation is entry.empty else f": {_annotation(entry.annotation)}"
    default = "" if entry.default is entry.empty else f" = {_NOT_CODE.sub('...', repr(entry.default))}"
    return f"{stars}{entry.name}{kind}{default if kind else default.replace(' ', '')}"


def _annotation(kind: Any) -> str:
    text = kind if isinstance(kind, str) else getattr(kind, "__forward_arg__", None) or inspect.formatannotation(kind)
    return _MODULE.sub("", text)


def _text(value: Any) -> list[str]:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return []
    own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    return [inspect.cleandoc(own), ""] if own and not own.startswith(f"{value.__name__}(") else []


def _methods(value: type) -> Iterator[list[str]]:
    classes = [base for base in reversed(value.__mro__) if base in (value, OpenedWorld)]
    for name, member in chain.from_iterable(vars(base).items() for base in classes):
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        waits = "await " if inspect.iscoroutinefunction(function) else ""
        heading = f"```python\n{waits}.{name}{_signature(function)}\n```"
        yield [f"### {value.__name__}.{name}", "", heading, "", *_text(function)]
