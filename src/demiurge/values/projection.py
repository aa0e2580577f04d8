"""Reads a value in normal form by its type: its JSON, a part of its JSON, and the refs in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.values.article import with_article
from demiurge.values.formats import SAFE_INTEGER, base64_text
from demiurge.values.refs import Ref
from demiurge.values.type_expr import Definitions, TypeExpr, holds, kind_of, reachable

Collect: TypeAlias = Callable[[Any, list[Ref]], None]

Only: TypeAlias = Literal["all", "length"] | Sequence[int | None] | Mapping[str, "Only"]
"""The part of a value to read: `"all"`; of a list its `"length"`, or the items of a pair `(start, stop)`, where a
negative end counts from the end and None means open; of a record a map from field names to the part of each."""


def to_json(value: Any, expr: TypeExpr, defs: Definitions) -> Any:
    """Returns `value` as JSON that every reader can read and that normalises to `value` again.

    Bytes become base64 text; integers beyond ±(2^53 - 1), times and durations included, and integer map keys become
    decimal text. If a record is older than an optional field of its type, the field is null.
    """
    kind, body = kind_of(expr)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)
    if isinstance(value, bytes):
        return base64_text(value)
    if kind == "record":
        return {name: to_json(_field(value, name, part), part, defs) for name, part in body.items()}
    if kind == "variant":
        return {"$tag": value["$tag"], "$value": to_json(value["$value"], body[value["$tag"]], defs)}
    if kind == "map":
        return {str(key): to_json(entry, body["value"], defs) for key, entry in value.items()}
    if kind in ("list", "set"):
        return [to_json(item, body, defs) for item in value]
    return to_json(value, defs[body] if kind == "ref" else body, defs)


def _field(value: Any, name: str, expr: TypeExpr) -> Any:
    return value.get(name) if "option" in expr else value[name]


def part_to_json(value: Any, expr: TypeExpr, defs: Definitions, only: Only, path: str = "") -> Any:
    """Returns the part `only` of `value` as JSON; None if an option on the way to the part is empty.

    The cost depends on the part, not on the length of the list. Raises InvalidValue (`bad_part`) if the type has no
    such part.
    """
    if only == "all":
        return to_json(value, expr, defs)
    kind, body = kind_of(expr)
    if kind in ("ref", "option"):
        return None if value is None else part_to_json(value, defs[body] if kind == "ref" else body, defs, only, path)
    if kind == "record" and isinstance(only, Mapping):
        for name in only:
            if name not in body:
                raise InvalidValue("there is no such field", path=f"{path}.{name}".strip("."), code="bad_part")
        return {
            name: part_to_json(_field(value, name, body[name]), body[name], defs, part, f"{path}.{name}".strip("."))
            for name, part in only.items()
        }
    if kind == "list" and only == "length":
        return len(value)
    if kind == "list" and _is_range(only):
        return [to_json(item, body, defs) for item in value[slice(*only)]]
    raise InvalidValue(f"{with_article(kind)} has no such part", path=path, code="bad_part")


def _is_range(only: Only) -> bool:
    is_pair = isinstance(only, Sequence) and not isinstance(only, str) and len(only) == 2
    return is_pair and all(end is None or type(end) is int for end in only)


def ref_collector(expr: TypeExpr, defs: Definitions) -> Collect | None:
    """Returns a function that appends every `hash` leaf of a value to a list, in order; None if the type has no such
    leaf."""
    needed = reachable(expr, defs)
    bearing = {name for name, found in needed.items() if holds(found, "hash")}
    while more := {
        name
        for name, found in needed.items()
        if name not in bearing and any(other in bearing for other in reachable(found, defs))
    }:
        bearing |= more
    named: dict[str, Collect] = {}

    def follow(name: str, value: Any, out: list[Ref]) -> None:
        named[name](value, out)

    follows = {name: partial(follow, name) for name in bearing}
    for name in bearing:
        if collect := _collector(needed[name], follows):
            named[name] = collect
    return _collector(expr, follows)


def _collector(expr: TypeExpr, follows: Mapping[str, Collect]) -> Collect | None:
    kind, body = kind_of(expr)
    if kind == "hash":
        return _leaf
    if kind == "ref":
        return follows.get(body)
    if kind in ("record", "variant"):
        named = {name: collect for name, part in body.items() if (collect := _collector(part, follows))}
        return partial(_record if kind == "record" else _variant, named) if named else None
    if kind == "map":
        key, entry = _collector(body["key"], follows), _collector(body["value"], follows)
        return partial(_map, key, entry) if key or entry else None
    if kind in ("list", "set", "option"):
        inner = _collector(body, follows)
        if inner is _leaf and kind != "option":
            return _leaves
        return partial(_option if kind == "option" else _items, inner) if inner else None
    return None


def _leaf(value: Any, out: list[Ref]) -> None:
    out.append(value)


def _leaves(value: Any, out: list[Ref]) -> None:
    out.extend(value)


def _record(fields: dict[str, Collect], value: Any, out: list[Ref]) -> None:
    for name in value:
        if collect := fields.get(name):
            collect(value[name], out)


def _variant(arms: dict[str, Collect], value: Any, out: list[Ref]) -> None:
    if collect := arms.get(value["$tag"]):
        collect(value["$value"], out)


def _items(collect: Collect, value: Any, out: list[Ref]) -> None:
    for item in value:
        collect(item, out)


def _option(collect: Collect, value: Any, out: list[Ref]) -> None:
    if value is not None:
        collect(value, out)


def _map(key: Collect | None, entry: Collect | None, value: Any, out: list[Ref]) -> None:
    for name, item in value.items():
        if key:
            key(name, out)
        if entry:
            entry(item, out)
