"""The kinds of values that a type can hold, computed when a tool is made, so that no call searches for the
impossible.

They are read from pydantic's own description of the type (its core schema). Whatever the description leaves open
(`Any`, a custom serializer, undeclared fields) counts as `any`, which can hold everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ANY", "flat_types", "has_open_dataclasses", "has_sent_only_fields", "is_flat", "kinds_of", "unwritable"]

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
    """Returns pydantic's names for the type and all types within it, with `any` if there may be others."""
    found: set[str] = set()
    for node in _nodes(core_schema):
        kind = node.get("type")
        if not isinstance(kind, str):  # a map of fields by name, or a class's configuration
            found.update({ANY} if node.get("extra_fields_behavior") == "allow" else ())
        else:
            found.add(kind if kind in _CLOSED and not _is_open(node) else ANY)
    return frozenset(found)


def has_sent_only_fields(core_schema: Any) -> bool:
    """Returns whether a constructor of the type, or of a type within it, takes a value that the object does not
    keep: an `InitVar` of a dataclass."""
    return any(node.get("init_only") is True and node.get("type") == "dataclass-field" for node in _nodes(core_schema))


def unwritable(core_schema: Any) -> str | None:
    """Returns what in a type JSON cannot hold, and what to return instead; None if there is nothing of that kind."""
    pending: list[tuple[Any, Mapping[str, Any]]] = [(core_schema, {})]
    while pending:
        node, config = pending.pop()
        if isinstance(node, list | tuple):
            pending.extend((part, config) for part in node)
        if not isinstance(node, dict) or (isinstance(node.get("type"), str) and "serialization" in node):
            continue
        kind = node.get("type")
        if kind == "bytes" and config.get("ser_json_bytes") not in ("base64", "hex"):
            return "bytes within a value are not JSON; return them alone, or as text, in base64 if need be"
        if kind in ("callable", "is-subclass") or (kind == "is-instance" and node.get("cls") is type):
            return "a function or a class is not JSON; return a value"
        inner = (node.get("config") or {}) if kind in ("dataclass", "model", "typed-dict") else config
        named = isinstance(kind, str)
        pending.extend((part, inner) for key, part in node.items() if not named or key not in _NO_SCHEMAS)
    return None


def has_open_dataclasses(core_schema: Any) -> bool:
    """Returns whether the type is a dataclass that takes extra fields, or has one within it."""
    configs = (node.get("config") or {} for node in _nodes(core_schema) if node.get("type") == "dataclass")
    return any(config.get("extra_fields_behavior") == "allow" for config in configs)


def _nodes(core_schema: Any) -> Iterator[dict[Any, Any]]:
    """Yields the descriptions of a type and of all types within it, and their parts: fields, configurations."""
    pending = [core_schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list | tuple):
            pending.extend(node)
        if not isinstance(node, dict):
            continue
        yield node
        named = isinstance(node.get("type"), str)
        pending.extend(part for key, part in node.items() if not named or key not in _NO_SCHEMAS)


def _is_open(node: Mapping[str, Any]) -> bool:
    """Returns whether a type may hold more than its fields, or is a map whose keys are not text, two of which may be
    equal in JSON."""
    if node["type"] == "dict" and node.get("keys_schema", {}).get("type") != "str":
        return True
    return node.get("extra_behavior") == "allow" or any(node.get(key) for key in _OPENING)


def is_flat(core_schema: Any) -> bool:
    """Returns whether the type is a dataclass of `bool`, `int` and `str` fields only, without code of its own. Its
    JSON is the whole value."""
    own_code = core_schema.get("post_init") or core_schema.get("serialization")
    if core_schema["type"] != "dataclass" or own_code or set(core_schema.get("config", ())) - {"title"}:
        return False
    arguments = core_schema["schema"]
    is_plain = arguments["type"] == "dataclass-args" and not arguments.get("computed_fields")
    return is_plain and all(_is_scalar(entry) for entry in arguments["fields"])


def flat_types(core_schema: Any) -> dict[str, type]:
    """Returns the fields of a flat type and the type of each."""
    entries = {entry["name"]: entry["schema"] for entry in core_schema["schema"]["fields"]}
    return {name: _TYPES[inner.get("schema", inner)["type"]] for name, inner in entries.items()}


def _is_scalar(entry: Mapping[str, Any]) -> bool:
    inner = entry["schema"]
    if inner["type"] == "default" and "serialization" not in inner:
        inner = inner["schema"]
    is_plain = set(entry) <= {"type", "name", "schema", "kw_only", "init", "metadata"} and entry.get("init", True)
    return bool(is_plain) and inner in _SCALARS
