"""Checks whether a world plan's expression can make a value of the wanted type, as far as that shows before the plan
runs.

Cases that depend on values are not reported: a text may or may not be a hash, and an optional value may be present. So
every problem reported here would fail each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values.schema import Validator
from demiurge.values.type_expr import TypeExpr, kind_of
from demiurge.world.manifest.expressions import Scope, Type, made_type, plain_type
from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import did_you_mean

__all__ = ["fit_problems"]

MAX_DEPTH = 32

_TEXTUAL = frozenset({"bytes", "dec128", "duration", "hash", "int", "nat", "text", "time", "uuid"})
"""Kinds whose values may be written as a text."""

_NUMBERS = frozenset({"dec128", "duration", "int", "nat", "time"})

_CONSTANTS = frozenset({"bool", "int", "nat", "text"})
"""Constant forms that hold their values as they are."""

_FITS: Mapping[str, frozenset[str]] = {
    "bool": frozenset({"bool"}),
    "bytes": frozenset({"bytes", "text"}),
    "dec128": frozenset({"dec128", "text"}),
    "duration": _TEXTUAL - {"hash", "uuid"},
    "hash": frozenset({"hash", "text"}),
    "int": _NUMBERS,
    "list": frozenset({"list", "set"}),
    "map": frozenset({"map", "record"}),
    "nat": _NUMBERS,
    "record": frozenset({"map", "record"}),
    "set": frozenset({"list", "set"}),
    "text": _TEXTUAL,
    "time": _TEXTUAL - {"hash", "uuid"},
    "unit": frozenset({"unit"}),
    "uuid": frozenset({"text", "uuid"}),
    "variant": frozenset({"variant"}),
}
"""The kind of a value -> the kinds of type that it may fit."""


def fit_problems(
    expression: Any, wanted: Type, place: ManifestPlace, scope: Scope, depth: int = 0
) -> Iterator[Problem]:
    """Yields the places where `expression` cannot make a value of the type `wanted`. Malformed expressions are skipped;
    other checks report them."""
    plain = plain_type(wanted, scope.schemas) if wanted is not None else None
    if plain is None or depth > MAX_DEPTH or wanted is None:
        return
    kind, body = kind_of(plain)
    if kind == "ref":  # a reference to an unknown schema
        return
    form, inner = _form(expression)
    if form == "null":
        if not _may_be_absent(wanted, scope.schemas):
            yield place.wrong(f"is null, and {kind} is wanted", "give it a value")
    elif form == "record" and isinstance(inner, Mapping) and kind == "record":
        yield from _fields(inner, body, place.at("record"), scope, depth)
    elif form in ("list", "set") and isinstance(inner, list) and kind in ("list", "set"):
        for index, part in enumerate(inner):
            yield from fit_problems(part, body, place.at(form, index), scope, depth + 1)
    elif form == "variant" and isinstance(inner, Mapping) and kind == "variant":
        yield from _arm(inner, body, place.at("variant"), scope, depth)
    else:
        made = made_type(expression, scope)
        problems = list(_type_problems(made, plain, place, scope, depth)) if made is not None else []
        yield from problems
        value = inner if form in _CONSTANTS else expression
        if kind != "text" and not problems and isinstance(value, str | int) and not _is_one(value, plain, scope):
            yield place.wrong(f"is a constant that is no {kind}", "correct it")


def _is_one(value: str | int, wanted: TypeExpr, scope: Scope) -> bool:
    try:
        Validator(wanted, scope.schemas).normalise(value)
    except InvalidValue:
        return False
    return True


def _form(expression: Any) -> tuple[str, Any]:
    if expression is None:
        return "null", None
    if isinstance(expression, Mapping) and len(expression) == 1:
        form, inner = next(iter(expression.items()))
        return str(form), inner
    return "", None


def _may_be_absent(expr: TypeExpr, schemas: Mapping[str, TypeExpr]) -> bool:
    for _ in range(64):
        kind, body = kind_of(expr)
        if kind != "ref" or body not in schemas:
            return kind in ("option", "unit")
        expr = schemas[body]
    return True


def _fields(
    written: Mapping[str, Any], wanted: Mapping[str, TypeExpr], place: ManifestPlace, scope: Scope, depth: int
) -> Iterator[Problem]:
    for name, part in written.items():
        if name in wanted:
            yield from fit_problems(part, wanted[name], place.at(name), scope, depth + 1)
        else:
            yield place.at(name).wrong(f"there is no field {name}", did_you_mean(name, wanted, "leave it out"))
    missing = [name for name, expr in wanted.items() if name not in written and not _may_be_absent(expr, scope.schemas)]
    if missing:
        yield place.wrong(f"lacks {', '.join(missing)}", "add what is missing")


def _arm(
    written: Mapping[str, Any], arms: Mapping[str, TypeExpr], place: ManifestPlace, scope: Scope, depth: int
) -> Iterator[Problem]:
    tag = written.get("tag")
    if not isinstance(tag, str):
        return
    if tag not in arms:
        yield place.at("tag").wrong(f"there is no arm {tag}", did_you_mean(tag, arms, "name one of the variant's arms"))
        return
    is_empty = written.get("value") in (None, {"null": {}}, {"record": {}})
    if not (is_empty and _may_be_absent(arms[tag], scope.schemas)):
        yield from fit_problems(written.get("value"), arms[tag], place.at("value"), scope, depth + 1)


def _type_problems(
    made: TypeExpr, wanted: TypeExpr, place: ManifestPlace, scope: Scope, depth: int
) -> Iterator[Problem]:
    made, wanted = plain_type(made, scope.schemas), plain_type(wanted, scope.schemas)
    if made == wanted or depth > MAX_DEPTH:
        return
    (found, inside), (kind, body) = kind_of(made), kind_of(wanted)
    if "ref" in (found, kind):
        return
    if kind not in _FITS.get(found, frozenset()):
        yield place.wrong(f"is of type {found}, and {kind} is wanted", "give it a value of that type")
    elif found == kind == "record" and inside:
        for name in inside:
            if name not in body:
                yield place.wrong(
                    f"has a field {name}, which is not wanted", "write the record out, without that field"
                )
        for name, expr in body.items():
            if name in inside:
                if inside[name] is not None:
                    yield from _type_problems(inside[name], expr, place, scope, depth + 1)
            elif not _may_be_absent(expr, scope.schemas):
                yield place.wrong(f"has no {name}, which is wanted", "write the record out, with that field")
