"""The arguments of a tool in words, from the JSON Schema that a model is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from demiurge.bootstrap.call_card import EFFECTS
from demiurge.cli import output

__all__ = ["ArgumentRow", "argument_rows", "tool_lines", "verdict_lines"]

DEEPEST: Final = 4
"""The most levels of nested objects whose fields are shown, and of types in a type."""

BOUNDS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", "character"),
    ("minItems", "maxItems", "item"),
    ("minProperties", "maxProperties", "field"),
)
"""The lower bound, the upper bound, and what is counted."""

OTHERS: Final = {
    "exclusiveMinimum": "above {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "pattern": "matching {}",
    "format": "format {}",
}


class ArgumentRow(NamedTuple):
    """An argument, or a field of one: its name as `to.x` or `points[].x`, its type with choices, bounds and default,
    and its description."""

    name: str
    kind: str
    about: str


def argument_rows(schema: Mapping[str, Any]) -> list[ArgumentRow]:
    """Returns a tool's arguments: the required ones first, each before its own fields."""
    return list(_rows(schema, schema, "", 0))


def tool_lines(view: Mapping[str, Any]) -> list[str]:
    """Returns a callable tool, as `tool_views` gives it, as plain lines."""
    lines = [view["id"], "", view["description"]]
    if view["details"]:
        lines += ["", view["details"]]
    lines += ["", *verdict_lines(view), ""]
    rows = argument_rows(view["input_schema"])
    lines += output.table(rows, ("ARGUMENT", "TYPE", "WHAT IT IS")) if rows else ["It takes no arguments."]
    cost = f"about {view['tokens']} tokens in each request"
    source = f"{view['source']}, {view['trust']}" if view["trust"] is not None else view["source"]
    return [*lines, "", f"Source: {source}; {cost}; spec {view['spec_hash']}."]


def verdict_lines(view: Mapping[str, Any]) -> list[str]:
    """Returns the effect of a tool and the policy's decision on it, as sentences."""
    effect = view["effect"]
    return [f"It {EFFECTS[effect]} ({effect}).", f"The policy says {view['decision']}: {view['why']}."]


def _rows(root: Mapping[str, Any], schema: Any, path: str, depth: int) -> Iterator[ArgumentRow]:
    node, place = _resolved(root, schema), path
    while depth and _resolved(root, node.get("items")) and "properties" not in node:
        node, place = _resolved(root, node["items"]), place + "[]"
    known, required = node.get("properties", {}), node.get("required", ())
    if not isinstance(known, Mapping) or depth > DEEPEST:
        return
    for name in dict.fromkeys([*(name for name in required if name in known), *known]):
        shown = f"{place}.{name}" if place else name
        field = _resolved(root, known[name])
        yield ArgumentRow(
            shown + ("" if name in required else " (optional)"), _kind(root, field), _one_line(field.get("description"))
        )
        yield from _rows(root, field, shown, depth + 1)


def _resolved(root: Mapping[str, Any], schema: Any) -> Mapping[str, Any]:
    """Returns the schema, or the definition that it refers to; {} for anything else."""
    if not isinstance(schema, Mapping):
        return {}
    start, _, name = str(schema.get("$ref", "")).rpartition("/")
    if start not in ("#/$defs", "#/definitions"):
        return schema
    found = root.get(start.removeprefix("#/"), {}).get(name)
    return {**(found if isinstance(found, Mapping) else {}), **{key: schema[key] for key in schema if key != "$ref"}}


def _kind(root: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    default = f"; default {_one_line(output.as_json(node['default']))}" if "default" in node else ""
    return _type(root, node, 0) + default


def _type(root: Mapping[str, Any], schema: Any, depth: int) -> str:
    node = _resolved(root, schema)
    choices = node.get("enum", [node["const"]] if "const" in node else None)
    if choices:
        return " or ".join(map(output.as_json, choices))
    arms = node.get("anyOf") or node.get("oneOf")
    if depth > DEEPEST:
        return "any"
    if arms:
        return " or ".join(_grouped(_type(root, arm, depth + 1)) for arm in arms)
    named = node.get("type", "any")
    kind = " or ".join(named) if isinstance(named, list) else str(named)
    if kind == "array":
        items = _resolved(root, node.get("items"))
        kind = f"list of {_grouped(_type(root, items, depth + 1))}" if items else "list"
    elif kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
        kind = f"object of {_grouped(_type(root, node['additionalProperties'], depth + 1))}"
    return ", ".join([kind, *_limits(node)])


def _grouped(kind: str) -> str:
    return f"({kind})" if ", " in kind or " or " in kind else kind


def _limits(node: Mapping[str, Any]) -> Iterator[str]:
    for low, high, unit in BOUNDS:
        least, most = node.get(low), node.get(high)
        unit_text = f" {unit}{'s' * ((most if most is not None else least) != 1)}" if unit else ""
        if least is not None and most is not None:
            yield f"{least} to {most}{unit_text}"
        elif least is not None:
            yield f"at least {least}{unit_text}"
        elif most is not None:
            yield f"at most {most}{unit_text}"
    for name, words in OTHERS.items():
        if name in node:
            yield words.format(_one_line(str(node[name])))
    if node.get("uniqueItems"):
        yield "each once"


def _one_line(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""
