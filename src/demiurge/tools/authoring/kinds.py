"""What a value of a type can hold, known when a tool is made, so that no call looks for what can't be there.

It is read from pydantic's own description of the type (its core schema). Whatever that leaves open (`Any`, a
serializer of one's own, fields that aren't declared) counts as `any`, which can hold everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ANY", "flat_types", "is_flat", "kinds_of"]

ANY = "any"

# fmt: off
_CLOSED = frozenset([
    "bool", "bytes", "dataclass", "dataclass-args", "dataclass-field", "date", "datetime", "decimal",
    "default", "definition-ref", "definitions", "dict", "enum", "float", "frozenset", "int", "list",
    "literal", "model", "model-field", "model-fields", "none", "nullable", "set", "str", "time", "timedelta",
    "tuple", "typed-dict", "typed-dict-field", "union", "url", "uuid",
])
# fmt: on
_OPENING = ("computed_fields", "extras_schema", "serialization", "serialization_alias")
_NO_SCHEMAS = ("default", "expected", "metadata", "serialization")
_TYPES = {"bool": bool, "int": int, "str": str}
_SCALARS = [{"type": kind} for kind in _TYPES]


def kinds_of(core_schema: Any) -> frozenset[str]:
    """pydantic's names for the type and all types within it, `any` among them if there may be others."""
    found: set[str] = set()
    pending = [core_schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list | tuple):
            pending.extend(node)
        if not isinstance(node, dict):
            continue
        kind = node.get("type")
        if not isinstance(kind, str):  # fields by their names, or a class's configuration
            pending.extend(node.values())
            found.update({ANY} if node.get("extra_fields_behavior") == "allow" else ())
            continue
        found.add(kind if kind in _CLOSED and not _is_open(node) else ANY)
        pending.extend(part for key, part in node.items() if key not in _NO_SCHEMAS)
    return frozenset(found)


def _is_open(node: Mapping[str, Any]) -> bool:
    """Is there more in it than its fields, or a map whose keys aren't text, two of which JSON may write alike?"""
    if node["type"] == "dict" and node.get("keys_schema", {}).get("type") != "str":
        return True
    return node.get("extra_behavior") == "allow" or any(node.get(key) for key in _OPENING)


def is_flat(core_schema: Any) -> bool:
    """Is it a dataclass of nothing but `bool`, `int` and `str`, and without code of its own? Its JSON is the whole
    value."""
    own_code = core_schema.get("post_init") or core_schema.get("serialization")
    if core_schema["type"] != "dataclass" or own_code or set(core_schema.get("config", ())) - {"title"}:
        return False
    arguments = core_schema["schema"]
    is_plain = arguments["type"] == "dataclass-args" and not arguments.get("computed_fields")
    return is_plain and all(_is_scalar(entry) for entry in arguments["fields"])


def flat_types(core_schema: Any) -> dict[str, type]:
    """The fields of a flat type, and what each holds."""
    entries = {entry["name"]: entry["schema"] for entry in core_schema["schema"]["fields"]}
    return {name: _TYPES[inner.get("schema", inner)["type"]] for name, inner in entries.items()}


def _is_scalar(entry: Mapping[str, Any]) -> bool:
    inner = entry["schema"]
    if inner["type"] == "default" and "serialization" not in inner:
        inner = inner["schema"]
    is_plain = set(entry) <= {"type", "name", "schema", "kw_only", "init", "metadata"} and entry.get("init", True)
    return bool(is_plain) and inner in _SCALARS
