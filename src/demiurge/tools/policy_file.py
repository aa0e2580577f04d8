"""Parses the text of a policy file in each of the three notations, strictly: a repeated key is an error.

`ToolPolicy.load` imports this module when it is first called.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml

from demiurge.errors import InvalidValue
from demiurge.tools.policy_problems import policy_problems

__all__ = ["file_problems", "parse"]

_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, yaml.YAMLError)
"""The exceptions of the parsers. For a value that does not fit its tag, PyYAML may raise something other than a
YAMLError."""


def parse(text: str, suffix: str) -> object:
    """Returns the content of a file whose name ends in `suffix`. Raises InvalidValue."""
    try:
        match suffix.lower():
            case ".toml":
                return tomllib.loads(text)
            case ".yaml" | ".yml":
                return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  (a SafeLoader)
            case ".json":
                return json.loads(text, object_pairs_hook=_unique_pairs)
            case _:
                raise InvalidValue("its name must end in .toml, .yaml, .yml or .json")
    except _UNREADABLE as error:
        raise InvalidValue(f"can't be parsed: {error}") from error
    except RecursionError as error:
        raise InvalidValue("is nested too deep") from error


def file_problems(path: str | Path) -> list[InvalidValue]:
    """Returns everything that is wrong with the content of a policy file. A parse error is the only entry. Returns
    an empty list for a file that cannot be read."""
    file = Path(path)
    try:
        return policy_problems(parse(file.read_text(encoding="utf-8-sig"), file.suffix))
    except InvalidValue as error:
        return [error]
    except (OSError, UnicodeDecodeError):
        return []


def _unique_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise InvalidValue(f"the key {key!r} is given twice")
        content[key] = value
    return content


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a repeated key; the plain loader keeps the last value."""


def _strict_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    if not all(isinstance(key, str) for key in keys):
        raise InvalidValue("a key must be text")
    _unique_pairs((key, None) for key in keys)
    return loader.construct_mapping(node)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _strict_mapping)
