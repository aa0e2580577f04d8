"""Warnings about a module reducer's source: names that make a step depend on more than its arguments, such as clocks.

The check proves nothing: code that a reducer calls in other modules is not inspected, and only checked replay shows
whether two runs agree. Names are resolved by the source's own imports, and a name that is not plainly on the list is
ignored.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["ReplayRisk", "replay_risks"]

_CLOCK = "reads a clock; the time of a step is in context.stamp"
_CHANCE = "is random; context.entropy(label) is the same at every replay"
_OUTSIDE = "reaches outside; let a plan ask for an effect, whose receipt is recorded"
_UNSTABLE = "differs from process to process"
_HIDDEN = "is state that no record knows of; keep it in the cell"

_NAMES: Mapping[str, str] = {
    "time": _CLOCK,
    "datetime.datetime.now": _CLOCK,
    "datetime.datetime.today": _CLOCK,
    "datetime.datetime.utcnow": _CLOCK,
    "datetime.date.today": _CLOCK,
    "random": _CHANCE,
    "secrets": _CHANCE,
    "uuid.uuid1": _CHANCE,
    "uuid.uuid4": _CHANCE,
    "os.urandom": _CHANCE,
    "numpy.random": _CHANCE,
    "hash": _UNSTABLE,
    "id": _UNSTABLE,
    **dict.fromkeys(("open", "input", "print", "breakpoint", "__import__", "eval", "exec"), _OUTSIDE),
    **dict.fromkeys(
        ("os", "sys.argv", "sys.stdin", "sys.stdout", "io", "pathlib.Path", "shutil", "tempfile", "glob", "logging"),
        _OUTSIDE,
    ),
    **dict.fromkeys(("socket", "ssl", "http", "urllib.request", "httpx", "requests", "aiohttp"), _OUTSIDE),
    **dict.fromkeys(("subprocess", "asyncio", "threading", "multiprocessing", "concurrent", "ctypes"), _OUTSIDE),
    **dict.fromkeys(("sqlite3", "importlib", "platform", "getpass", "locale"), _OUTSIDE),
}
"""Name -> why it is a risk. A module's entry covers every name in it."""

_HARMLESS = frozenset(["os.path.basename", "os.path.dirname", "os.path.join", "http.HTTPStatus"])


class ReplayRisk(NamedTuple):
    """A name in a source that may make a replay differ: its `line`, the `name`, and `why`."""

    line: int
    name: str
    why: str


def replay_risks(source: bytes) -> tuple[ReplayRisk, ...]:
    """Returns the risks in the order of the source, each name once a line. A source that is not Python, or too deeply
    nested for Python, has none: it does not run either."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(sorted(set(_found(tree, _bound(tree)))))


def _bound(tree: ast.AST) -> dict[str, str]:
    """Returns the names that the source binds: the full name of an import, "" for anything else."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    bound[alias.asname or whole] = whole
            case ast.ImportFrom(module=str(module), level=0):
                bound |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
            case ast.ImportFrom():
                bound |= {alias.asname or alias.name: "" for alias in node.names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.setdefault(name, "")
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.setdefault(name, "")
            case ast.MatchMapping(rest=str(name)):
                bound.setdefault(name, "")
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                bound.setdefault(name, "")
    return bound


def _found(tree: ast.AST, bound: Mapping[str, str]) -> Iterator[ReplayRisk]:
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield ReplayRisk(
                node.lineno, f"{'global' if isinstance(node, ast.Global) else 'nonlocal'} {node.names[0]}", _HIDDEN
            )
        if id(node) in inner or not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        parts: list[str] = []
        part: ast.expr = node
        while isinstance(part, ast.Attribute):
            parts.insert(0, part.attr)
            part = part.value
            inner.add(id(part))
        if not isinstance(part, ast.Name):
            continue
        name = ".".join([bound.get(part.id, part.id), *parts])
        why = _why(name)
        if why is not None:
            yield ReplayRisk(node.lineno, name, why)


def _why(name: str) -> str | None:
    if name in _HARMLESS:
        return None
    steps = name.split(".")
    return next((_NAMES[whole] for end in range(1, len(steps) + 1) if (whole := ".".join(steps[:end])) in _NAMES), None)
