"""A policy file's text as plain data, in each of the three notations. Strict in all: a key given twice is refused.

`ToolPolicy.load` imports this module when it is first called.
"""

from __future__ import annotations

import tomllib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json

__all__ = ["parse"]


def parse(text: str, file: Path) -> object:
    """The content of `file`, by its ending. Raises InvalidValue."""
    try:
        match file.suffix.lower():
            case ".toml":
                return tomllib.loads(text)
            case ".yaml" | ".yml":
                return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  (a SafeLoader)
            case ".json":
                return canonical_json.parse_object(text)
            case _:
                raise InvalidValue("A policy file ends in .toml, .yaml, .yml or .json.")
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise InvalidValue(f"The policy file {file} can't be parsed: {error}") from error


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice, where the plain loader lets the last one win."""


def _strict_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    if len(set(keys)) != len(keys):
        raise InvalidValue("A key is given twice in the policy file.")
    return loader.construct_mapping(node)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _strict_mapping)
