"""Checks of a world plan's expressions before the plan runs: their form, what they read, and the type of their
values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from demiurge.values.type_expr import TypeExpr, kind_of
from demiurge.world.expr import CONSTANTS, OPS, parse_ref
from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import did_you_mean

__all__ = ["NoField", "Scope", "Type", "bool_problems", "expression_problems", "made_type", "plain_type", "type_at"]

MAX_DEPTH = 64
FORMS = frozenset({*CONSTANTS, "ref", "null", "bytes_b64", "record", "list", "set", "map", "variant"})

RESULTS: Mapping[str, str] = {
    **dict.fromkeys(("has", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "contains"), "bool"),
    **dict.fromkeys(("starts_with", "ends_with"), "bool"),
    **dict.fromkeys(("add", "sub", "mul", "div", "mod", "len"), "int"),
    "concat": "text",
    "hash": "hash",
    "hash_bytes": "hash",
}
"""Operation -> the kind of its value; `get` is left out because it may return any kind."""

Type = TypeExpr | None
"""A type; None if nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression may read: the plan's `input`, the variables and steps that are set by then, and the
    event. `later` holds variables that other steps set."""

    schemas: Mapping[str, TypeExpr]
    input: Type
    vars: Mapping[str, Type] = field(default_factory=dict)
    steps: Mapping[str, Type] = field(default_factory=dict)
    later: frozenset[str] = frozenset()
    event: Type = None
    has_event: bool = False


class NoField(Exception):
    """The type has no such field; the argument is its name."""


def type_at(expr: Type, fields: tuple[str, ...], schemas: Mapping[str, TypeExpr]) -> Type:
    """Returns the type at a path of fields in `expr`. Raises NoField with the name that is missing."""
    for name in fields:
        if expr is None:
            return None
        kind, body = kind_of(plain_type(expr, schemas))
        if kind == "ref":
            return None
        if kind == "record" and name in body:
            expr = body[name]
        elif kind == "map":
            expr = body["value"]
        elif kind == "variant" and name in ("$tag", "$value"):
            expr = {"text": {}} if name == "$tag" else None
        else:
            raise NoField(name)
    return expr


def plain_type(expr: TypeExpr, schemas: Mapping[str, TypeExpr]) -> TypeExpr:
    """Returns the type behind options and references, as far as these can be resolved."""
    for _ in range(64):
        kind, body = kind_of(expr)
        if kind == "option":
            expr = body
        elif kind == "ref" and body in schemas:
            expr = schemas[body]
        else:
            break
    return expr


def expression_problems(expression: Any, place: ManifestPlace, scope: Scope, depth: int = 0) -> Iterator[Problem]:
    """Yields the problems of an expression that a world plan may read in `scope`."""
    if depth > MAX_DEPTH:
        yield place.wrong("is nested too deep", f"nest at most {MAX_DEPTH} levels; give parts a name with assign")
    elif isinstance(expression, list):
        yield place.wrong("a list is no expression", 'write {"list": [...]}')
    elif isinstance(expression, float):
        yield place.wrong("has a fraction, which no value has", 'write a decimal as a text, {"dec128": "0.5"}')
    elif not isinstance(expression, Mapping):
        return
    elif "op" in expression:
        yield from _operation(expression, place, scope, depth)
    elif len(expression) != 1:
        yield place.wrong("an expression is one form", 'write an object with one key, such as {"text": "x"}')
    else:
        form, body = next(iter(expression.items()))
        if form in _CHECKS:
            yield from _CHECKS[form](body, place.at(form), scope, depth)
        elif form in CONSTANTS:
            yield from _constant(form, body, place)
        else:
            yield place.wrong(f"there is no form {form!r}", did_you_mean(form, FORMS, 'write {"text": ...} or another'))


def bool_problems(expression: Any, place: ManifestPlace, scope: Scope) -> Iterator[Problem]:
    """Yields the same problems, and one if the value is known not to be a bool."""
    yield from expression_problems(expression, place, scope)
    kind = _kind(expression, scope)
    if kind not in (None, "bool"):
        yield place.wrong(f"is of type {kind}, not bool", "compare it, for example with eq")


def _kind(expression: Any, scope: Scope) -> str | None:
    """Returns the kind of an expression's value; None if it is not known."""
    if not isinstance(expression, Mapping):
        plain = {bool: "bool", int: "int", str: "text", type(None): "null"}
        return plain.get(type(expression))
    if "op" in expression:
        return RESULTS.get(str(expression["op"]))
    form, body = next(iter(expression.items()), ("", None))
    if form != "ref":
        return form if form in FORMS else None
    try:
        found = _ref_type(str(body), scope)
    except NoField:
        return None
    if found is None or "option" in found:
        return None
    kind = kind_of(plain_type(found, scope.schemas))[0]
    return None if kind == "ref" else kind


_MADE: Mapping[str, str] = {"bytes_b64": "bytes", "duration_ns": "duration", "time_ns": "time", "null": "unit"}
"""Forms whose names differ from the kind of their values."""


def made_type(expression: Any, scope: Scope) -> Type:
    """Returns the type of the value of a constant, a reference or an operation; None if it is not known. For a list, a
    map or a variant it holds only the kind."""
    if isinstance(expression, Mapping) and "ref" in expression and len(expression) == 1:
        try:
            return _ref_type(str(expression["ref"]), scope)
        except NoField:
            return None
    kind = _kind(expression, scope)
    return None if kind is None else {_MADE.get(kind, kind): {}}


def _operation(expression: Mapping[str, Any], place: ManifestPlace, scope: Scope, depth: int) -> Iterator[Problem]:
    name, args = expression["op"], expression.get("args")
    if not isinstance(name, str) or name not in OPS:
        yield place.at("op").wrong(f"there is no operation {name!r}", did_you_mean(name, OPS, "see the page on plans"))
        return
    for other in sorted(set(expression) - {"op", "args"}):
        yield place.at(other).wrong("is no field of an operation", 'write {"op": NAME, "args": [...]}')
    arity = OPS[name][0]
    if not isinstance(args, list) or len(args) != arity:
        yield place.wrong(f"{name} takes {arity} arguments", f"give args a list of {arity}")
        return
    for index, arg in enumerate(args):
        yield from expression_problems(arg, place.at("args", index), scope, depth + 1)


def _constant(form: str, body: Any, place: ManifestPlace) -> Iterator[Problem]:
    if form in ("nat", "int"):
        fits = type(body) is int and (form == "int" or body >= 0)
    elif form == "bool":
        fits = type(body) is bool
    else:
        fits = isinstance(body, str) or (form.endswith("_ns") and type(body) is int)
    if not fits:
        yield place.at(form).wrong(f"is no constant of type {form}", "correct it, or leave the tag out")


def _ref(body: Any, place: ManifestPlace, scope: Scope, _depth: int) -> Iterator[Problem]:
    if not isinstance(body, str) or not body.startswith("@"):
        yield place.wrong("is no reference", "write @plan.input.FIELD, @var:NAME, @step:ID or @event.FIELD")
        return
    head = parse_ref(body)[0]
    name = head.partition(":")[2]
    if head.startswith("var:") and name not in scope.vars:
        if name in scope.later:
            yield place.wrong(f"{name} is not set before this", "add edges from the step that sets it")
        else:
            yield place.wrong(f"nothing sets {name}", did_you_mean(name, scope.vars, "bind it in an earlier step"))
    elif head.startswith("step:") and name not in scope.steps:
        yield place.wrong(f"no step {name} before this binds a value", "name a step that leads here and binds one")
    elif head == "event" and not scope.has_event:
        yield place.wrong("there is no event here", "@event is for the where of an await_event")
    elif head not in ("plan", "event") and not head.startswith(("var:", "step:")):
        yield place.wrong(f"{body} is no reference", "write @plan.input.FIELD, @var:NAME, @step:ID or @event.FIELD")
    else:
        try:
            _ref_type(body, scope)
        except NoField as error:
            yield place.wrong(f"{body} is not there: there is no {error}", "name a field that the schema has")


def _ref_type(path: str, scope: Scope) -> Type:
    """Returns the type of the value that a reference names. Raises NoField."""
    head, fields = parse_ref(path)
    if head == "plan":
        if fields[:1] != ("input",):
            raise NoField(fields[0] if fields else "@plan")
        return type_at(scope.input, fields[1:], scope.schemas)
    kind, _, name = head.partition(":")
    found = scope.event if kind == "event" else (scope.vars if kind == "var" else scope.steps).get(name)
    return type_at(found, fields, scope.schemas)


def _record(body: Any, place: ManifestPlace, scope: Scope, depth: int) -> Iterator[Problem]:
    if not isinstance(body, Mapping):
        yield place.wrong("a record is an object of fields", 'write {"record": {...}}')
        return
    for name, part in body.items():
        yield from expression_problems(part, place.at(name), scope, depth + 1)


def _list(body: Any, place: ManifestPlace, scope: Scope, depth: int) -> Iterator[Problem]:
    if not isinstance(body, list):
        yield place.wrong("is no list of expressions", "write [...]")
        return
    for index, part in enumerate(body):
        yield from expression_problems(part, place.at(index), scope, depth + 1)


def _map(body: Any, place: ManifestPlace, scope: Scope, depth: int) -> Iterator[Problem]:
    if not isinstance(body, list) or not all(isinstance(e, Mapping) and set(e) == {"key", "value"} for e in body):
        yield place.wrong("a map is a list of entries", 'write {"map": [{"key": ..., "value": ...}]}')
        return
    for index, entry in enumerate(body):
        for name, part in entry.items():
            yield from expression_problems(part, place.at(index, name), scope, depth + 1)


def _variant(body: Any, place: ManifestPlace, scope: Scope, depth: int) -> Iterator[Problem]:
    if not isinstance(body, Mapping) or not isinstance(body.get("tag"), str) or set(body) - {"tag", "value"}:
        yield place.wrong("a variant is a tag and a value", 'write {"variant": {"tag": "T", "value": ...}}')
    elif "value" in body:
        yield from expression_problems(body["value"], place.at("value"), scope, depth + 1)


def _null(body: Any, place: ManifestPlace, _scope: Scope, _depth: int) -> Iterator[Problem]:
    if body != {}:
        yield place.wrong("null has nothing inside", 'write {"null": {}} or null')


def _bytes(body: Any, place: ManifestPlace, _scope: Scope, _depth: int) -> Iterator[Problem]:
    try:
        base64.b64decode(body, validate=True)
    except (binascii.Error, TypeError, ValueError):
        yield place.wrong("is no base64", "write bytes as base64 with padding")


_CHECKS: Mapping[str, Callable[[Any, ManifestPlace, Scope, int], Iterator[Problem]]] = {
    "ref": _ref,
    "record": _record,
    "list": _list,
    "set": _list,
    "map": _map,
    "variant": _variant,
    "null": _null,
    "bytes_b64": _bytes,
}
