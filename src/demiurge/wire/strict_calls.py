"""Strict function calling in the formats of OpenAI: the provider keeps the arguments of a call to the tool's schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.spec import ToolSpec

__all__ = ["require_strict", "strict_tools", "without_strict"]


def strict_tools(encoded: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Returns what `encode_tools` returned, with these tools marked as strict."""
    tools = [
        _marked(entry) if (entry.get("function") or entry)["name"] in names else entry for entry in encoded["tools"]
    ]
    return {**encoded, "tools": tools}


def _marked(entry: Mapping[str, Any]) -> dict[str, Any]:
    if "function" in entry:
        return {**entry, "function": {**entry["function"], "strict": True}}
    return {**entry, "strict": True}


def without_strict(entry: Mapping[str, Any]) -> tuple[dict[str, Any], object]:
    """Returns a tool's entry without the mark, and the mark, None if there is none."""
    plain, function = {name: value for name, value in entry.items() if name != "strict"}, entry.get("function")
    if not isinstance(function, Mapping):
        return plain, entry.get("strict")
    plain["function"] = {name: value for name, value in function.items() if name != "strict"}
    return plain, function.get("strict")


def require_strict(spec: ToolSpec) -> None:
    """Raises InvalidValue (`bad_toolset`) for a tool whose schema no provider takes for strict calls: each object has
    to require all of its fields, and to allow no other."""
    problem = _loose(spec.input_schema, "")
    if problem:
        why = f"calls of {spec.name} can't be strict, because {problem}: leave `strict` out"
        raise InvalidValue(why, path="strict", code="bad_toolset")


def _loose(schema: Any, path: str) -> str:
    """Returns why a schema, or a part of it, is not for strict calls; empty if it is."""
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return next(filter(None, (_loose(each, path) for each in schema)), "")
    if not isinstance(schema, Mapping):
        return ""
    fields = schema.get("properties", {})
    paths = {name: f"{path}.{name}" if path else name for name in fields}
    optional = next((name for name in fields if name not in schema.get("required", ())), None)
    if optional is not None:
        return f"the field {paths[optional]} may be left out"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return f"{path or 'the arguments'} may have other fields"
    parts = [(paths[name], each) for name, each in fields.items()]
    parts += [(path, schema.get(key)) for key in ("items", "anyOf")]
    parts += list(schema.get("$defs", {}).items())
    return next(filter(None, (_loose(each, name) for name, each in parts)), "")
