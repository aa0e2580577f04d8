"""Plan expressions: small, total, and closed. Control flow belongs in reducers, so this language does not grow.

An expression is JSON (seed 001; behaviour as AgentOS had it):

* a plain string, number, boolean or null, or a tagged constant (`{"text": "x"}`, `{"nat": 1}`, `{"null": {}}`);
* a constructor: `{"record": {f: E}}`, `{"list": [E]}`, `{"set": [E]}`, `{"map": [{"key": E, "value": E}]}`,
  `{"variant": {"tag": T, "value": E}}`;
* a reference: `{"ref": "@plan.input.a.b"}`, `{"ref": "@var:name.a"}`, `{"ref": "@event.a"}`;
* an operation: `{"op": NAME, "args": [E]}` with a name of `OPS`.

Evaluation is pure. It raises `ExpressionError`, which ends the plan with a recorded result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values import cbor
from demiurge.values.refs import ref_of

__all__ = ["OPS", "Environment", "ExpressionError", "evaluate"]

Environment = Mapping[str, Any]
"""`{"input": value, "vars": {name: value}, "event": value}`."""

CONSTANTS = frozenset({"text", "nat", "int", "bool", "dec128", "hash", "uuid", "time_ns", "duration_ns"})


class ExpressionError(Exception):
    """An expression that has no value: a missing reference or field, a wrong type, a division by zero."""


def evaluate(expression: Any, env: Environment) -> Any:
    """The value of `expression` under `env`. Raises ExpressionError, whatever is wrong with either."""
    try:
        return _value(expression, env)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ExpressionError(f"not an expression: {type(error).__name__}") from error


def _value(expression: Any, env: Environment) -> Any:
    if type(expression) is not dict and not isinstance(expression, Mapping):
        if isinstance(expression, list):
            raise ExpressionError('a list is written {"list": [...]}')
        return expression
    if "op" in expression:
        return _operation(expression, env)
    if len(expression) != 1:
        raise ExpressionError(f"not an expression: {sorted(expression)}")
    form, body = next(iter(expression.items()))
    if form in CONSTANTS:
        return body
    try:
        build = _FORMS[form]
    except KeyError:
        raise ExpressionError(f"unknown form {form!r}") from None
    return build(body, env)


def _operation(expression: Mapping[str, Any], env: Environment) -> Any:
    name = expression["op"]
    if name not in OPS:
        raise ExpressionError(f"unknown operation {name!r}")
    arity, run = OPS[name]
    args = [_value(arg, env) for arg in expression.get("args", ())]
    if len(args) != arity:
        raise ExpressionError(f"{name} takes {arity} arguments, not {len(args)}")
    try:
        return run(*args)
    except (TypeError, ValueError, KeyError, IndexError, ArithmeticError, InvalidValue) as error:
        raise ExpressionError(f"{name}: {type(error).__name__}") from error


def _reference(path: str, env: Environment) -> Any:
    head, fields = _parsed(path)
    if head == "plan" and fields[:1] == ("input",):
        value, fields = env["input"], fields[1:]
    elif head == "event" and "event" in env:
        value = env["event"]
    elif head.startswith("var:") and head[4:] in env["vars"]:
        value = env["vars"][head[4:]]
    else:
        raise ExpressionError(f"{path} is not set")
    for name in fields:
        value = _get(value, name)
    return value


@lru_cache(4096)
def _parsed(path: str) -> tuple[str, tuple[str, ...]]:
    head, *fields = path.removeprefix("@").split(".")
    return head, tuple(fields)


def _get(container: Any, key: Any) -> Any:
    if type(container) is dict and key in container:
        return container[key]
    if isinstance(container, Mapping) and key in container:
        return container[key]
    if isinstance(container, Sequence) and type(key) is int and 0 <= key < len(container):
        return container[key]
    raise ExpressionError(f"there is no {key!r} to get")


def _map(entries: Any, env: Environment) -> dict[Any, Any]:
    return {_value(entry["key"], env): _value(entry["value"], env) for entry in entries}


_FORMS: Mapping[str, Callable[[Any, Environment], Any]] = {
    "ref": _reference,
    "null": lambda _body, _env: None,
    "record": lambda body, env: {name: _value(part, env) for name, part in body.items()},
    "list": lambda body, env: [_value(part, env) for part in body],
    "set": lambda body, env: [_value(part, env) for part in body],
    "map": _map,
    "variant": lambda body, env: {"$tag": body["tag"], "$value": _value(body.get("value"), env)},
}


def _numbers(run: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(left: Any, right: Any) -> Any:
        if type(left) is not int or type(right) is not int:
            raise TypeError
        return run(left, right)

    return checked


def _ordered(run: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def checked(left: Any, right: Any) -> bool:
        if type(left) is not type(right) or type(left) not in (int, str):
            raise TypeError
        return run(left, right)

    return checked


def _texts(run: Callable[[str, str], Any]) -> Callable[[Any, Any], Any]:
    def checked(left: Any, right: Any) -> Any:
        if not isinstance(left, str) or not isinstance(right, str):
            raise TypeError
        return run(left, right)

    return checked


def _truths(run: Callable[[bool, bool], bool]) -> Callable[[Any, Any], bool]:
    def checked(left: Any, right: Any) -> bool:
        if type(left) is not bool or type(right) is not bool:
            raise TypeError
        return run(left, right)

    return checked


def _not(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError
    return not value


def _same(left: Any, right: Any) -> bool:
    """Equal as values; a bool is no number, which Python thinks it is."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return (type(left) is bool) == (type(right) is bool) and bool(left == right)


def _has(container: Any, key: Any) -> bool:
    if isinstance(container, Mapping):
        return key in container and container[key] is not None
    return type(key) is int and 0 <= key < len(container)


def _contains(container: Any, part: Any) -> bool:
    if isinstance(container, str):
        return bool(part in container)
    return any(_same(part, found) for found in container)


OPS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "len": (1, len),
    "get": (2, _get),
    "has": (2, _has),
    "eq": (2, _same),
    "ne": (2, lambda left, right: not _same(left, right)),
    "lt": (2, _ordered(operator.lt)),
    "le": (2, _ordered(operator.le)),
    "gt": (2, _ordered(operator.gt)),
    "ge": (2, _ordered(operator.ge)),
    "and": (2, _truths(operator.and_)),
    "or": (2, _truths(operator.or_)),
    "not": (1, _not),
    "concat": (2, _texts(operator.add)),
    "starts_with": (2, _texts(str.startswith)),
    "ends_with": (2, _texts(str.endswith)),
    "contains": (2, _contains),
    "add": (2, _numbers(operator.add)),
    "sub": (2, _numbers(operator.sub)),
    "mul": (2, _numbers(operator.mul)),
    "div": (2, _numbers(operator.floordiv)),
    "mod": (2, _numbers(operator.mod)),
    "hash": (1, lambda value: ref_of(cbor.encode(value))),
    "hash_bytes": (1, ref_of),
}
"""Name -> (number of arguments, function)."""
