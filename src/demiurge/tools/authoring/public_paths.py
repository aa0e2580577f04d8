"""Checks that a result, or a call, has the fields that its redaction makes public. A misspelled path would hide what
was meant to be visible.

The check uses pydantic's JSON Schema of the result's type, so aliases, computed fields, optional and nested types
are as in the JSON that the redaction is applied to. If a type leaves its content open, every path is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from demiurge.tools.authoring.adapters import adapter_of
from demiurge.tools.redaction import Redaction

__all__ = ["missing_argument", "missing_path"]


def missing_path(result_type: Any, redaction: Redaction) -> str | None:
    """Returns the first field of `redaction` that no value of the type has; None if each may be present."""
    if not redaction.fields:
        return None
    try:
        adapter = adapter_of(type(None) if result_type is None else result_type)
        schema = adapter.json_schema(mode="serialization", schema_generator=_Quiet)
    except (PydanticUserError, KeyError, NameError):
        return None  # JSON Schema cannot describe the type
    for name in redaction.fields:
        if not _may_have(schema, name.split("."), schema.get("$defs", {})):
            return name
    return None


def missing_argument(schema: Mapping[str, Any], redaction: Redaction) -> str | None:
    """Returns the first of a redaction's `arguments` that no call of a tool with this input schema has; None if each
    may be present."""
    defs = schema.get("$defs", {})
    return next((path for path in redaction.arguments if not _may_have(schema, path.split("."), defs)), None)


class _Quiet(GenerateJsonSchema):
    """A generator that does not warn about what JSON Schema cannot describe."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Ignores the warning: what cannot be described is left out."""


def _may_have(node: Any, segments: Sequence[str], defs: Mapping[str, Any]) -> bool:
    """Returns whether a value of the schema `node` may have this path. A list stands for its items, `*` for any key."""
    while isinstance(node, Mapping) and "$ref" in node:
        node = defs[str(node["$ref"]).rpartition("/")[2]]
    if not segments or not isinstance(node, Mapping):
        return bool(not segments or node)
    for keyword in ("anyOf", "oneOf"):
        if keyword in node:
            return any(_may_have(arm, segments, defs) for arm in node[keyword])
    match node.get("type"):
        case "object":
            return any(_may_have(child, segments[1:], defs) for child in _members(node, segments[0]))
        case "array":
            items = [*node.get("prefixItems", ()), node.get("items", "prefixItems" not in node)]
            return any(_may_have(item, segments, defs) for item in items)
        case None:
            return "const" not in node and "enum" not in node
        case _:
            return False


def _members(node: Mapping[str, Any], name: str) -> Iterator[Any]:
    named = node.get("properties", {})
    if name in named:
        yield named[name]
        return
    if name == "*":
        yield from named.values()
    if others := node.get("additionalProperties", "properties" not in node):
        yield others
    yield from node.get("patternProperties", {}).values()
