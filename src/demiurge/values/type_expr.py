"""The schema types, as JSON: `{"record": {"chat_id": {"text": {}}}}`.

A TypeExpr is data with one key, its kind. This module knows the kinds and finds everything that is wrong with
a set of named definitions; what values look like is in `normal_form`.

    bool int nat dec128 bytes text time duration hash uuid unit      {"text": {}}
    record {field: T} · variant {Tag: T} · list T · set T · map {"key": K, "value": T} · option T
    ref "ns/Name@N"                                                  to another definition, recursion allowed
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

TypeExpr: TypeAlias = Mapping[str, Any]
Definitions: TypeAlias = Mapping[str, TypeExpr]

PRIMITIVES = frozenset(("bool", "int", "nat", "dec128", "bytes", "text", "time", "duration", "hash", "uuid", "unit"))
KEY_KINDS = frozenset(("int", "nat", "text", "uuid", "hash"))

_NAME = re.compile(r"[a-z][a-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*@[1-9][0-9]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def kind_of(expr: TypeExpr) -> tuple[str, Any]:
    """Returns the kind of a well-formed type, and the body under that key."""
    ((kind, body),) = expr.items()
    return kind, body


def parts(expr: TypeExpr) -> list[TypeExpr]:
    """Returns the types that a well-formed type directly contains; refs are not followed."""
    kind, body = kind_of(expr)
    if kind in ("record", "variant", "map"):
        return list(body.values())
    return [body] if kind in ("list", "set", "option") else []


def reachable(expr: TypeExpr, defs: Definitions) -> dict[str, TypeExpr]:
    """Returns the definitions that `expr` refers to, directly or indirectly, in the order found."""
    found: dict[str, TypeExpr] = {}
    todo = [expr]
    while todo:
        kind, body = kind_of(here := todo.pop())
        if kind == "ref" and body not in found:
            found[body] = defs[body]
            todo.append(defs[body])
        todo += parts(here)
    return found


def holds(expr: TypeExpr, kind: str) -> bool:
    """Returns whether a type of this kind occurs in `expr`; refs are not followed."""
    return kind in expr or any(holds(part, kind) for part in parts(expr))


def problems(defs: Mapping[Any, Any]) -> list[str]:
    """Returns every problem of a set of definitions: one sentence each, with the path of the type that it is about."""
    found: list[str] = []
    sound: dict[Any, TypeExpr] = {}
    for name, expr in defs.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            found.append(f"{name!r}: a name is written namespace/Name@1")
        wrong = list(type_problems(expr, defs, str(name)))
        found += wrong
        sound |= {} if wrong else {name: expr}
    return found + [f"{name}: no finite value has this type, it needs itself" for name in endless(sound)]


def type_problems(expr: object, defs: Mapping[Any, Any], path: str) -> Iterator[str]:
    """Returns the problems of one type whose refs point into `defs`."""
    if not isinstance(expr, Mapping) or len(expr) != 1:
        yield f'{path}: a type is an object with one key, its kind, such as {{"text": {{}}}}'
        return
    kind, body = kind_of(expr)
    if check := _CHECKS.get(kind):
        yield from check(body, defs, path)
    elif kind not in PRIMITIVES:
        yield f"{path}: there is no type {kind!r}"
    elif not isinstance(body, Mapping) or body:
        yield f'{path}: {kind} is written {{"{kind}": {{}}}}'


def _named(body: object, defs: Mapping[Any, Any], path: str, what: str) -> Iterator[str]:
    if not isinstance(body, Mapping):
        yield f"{path}: {what} are an object of names and types"
        return
    for name, part in body.items():
        if not isinstance(name, str) or not _WORD.fullmatch(name):
            yield f"{path}: {name!r} is no name: letters, digits, _ and -, not starting with a digit"
        else:
            yield from type_problems(part, defs, f"{path}.{name}")


def _record(body: object, defs: Mapping[Any, Any], path: str) -> Iterator[str]:
    yield from _named(body, defs, path, "the fields of a record")


def _variant(body: object, defs: Mapping[Any, Any], path: str) -> Iterator[str]:
    if body == {}:
        yield f"{path}: a variant needs at least one tag"
    yield from _named(body, defs, path, "the tags of a variant")


def _map(body: object, defs: Mapping[Any, Any], path: str) -> Iterator[str]:
    if not isinstance(body, Mapping) or set(body) != {"key", "value"}:
        yield f'{path}: a map is written {{"map": {{"key": K, "value": T}}}}'
        return
    wrong = list(type_problems(body["key"], defs, f"{path}.key"))
    if not wrong and kind_of(body["key"])[0] not in KEY_KINDS:
        wrong = [f"{path}.key: the keys of a map are one of {', '.join(sorted(KEY_KINDS))}"]
    yield from wrong
    yield from type_problems(body["value"], defs, f"{path}.value")


def _inner(body: object, defs: Mapping[Any, Any], path: str) -> Iterator[str]:
    yield from type_problems(body, defs, f"{path}[]")


def _ref(body: object, defs: Mapping[Any, Any], path: str) -> Iterator[str]:
    if not isinstance(body, str) or body not in defs:
        yield f"{path}: there is no definition {body!r}"


_CHECKS: dict[str, Callable[[object, Mapping[Any, Any], str], Iterator[str]]] = {
    "record": _record,
    "variant": _variant,
    "map": _map,
    "list": _inner,
    "set": _inner,
    "option": _inner,
    "ref": _ref,
}


def endless(defs: Definitions) -> Iterable[str]:
    """Returns the names of definitions that no finite value satisfies: those left after all finite ones are removed,
    one by one. All definitions are well formed; a name that is not among them counts as finite."""
    left = dict(defs)
    while finite := [name for name, expr in left.items() if _finite(expr, left)]:
        for name in finite:
            del left[name]
    return left


def _finite(expr: TypeExpr, open_names: Mapping[str, object]) -> bool:
    kind, body = kind_of(expr)
    if kind == "record":
        return all(_finite(part, open_names) for part in body.values())
    if kind == "variant":
        return any(_finite(part, open_names) for part in body.values())
    return kind != "ref" or body not in open_names
