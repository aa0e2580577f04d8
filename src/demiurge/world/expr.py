"""Plan expressions: small, total, and closed. Control flow belongs in reducers, so this language does not grow.

An expression is JSON:

* a plain string, whole number, boolean or null, or a tagged constant (`{"text": "x"}`, `{"nat": 1}`, `{"null": {}}`,
  `{"bytes_b64": "aGk="}`);
* a constructor: `{"record": {f: E}}`, `{"list": [E]}`, `{"set": [E]}`, `{"map": [{"key": E, "value": E}]}`,
  `{"variant": {"tag": T, "value": E}}`;
* a reference: `{"ref": "@plan.input.a.b"}`, `{"ref": "@var:name.a"}`, `{"ref": "@step:id.a"}`, `{"ref": "@event.a"}`;
* an operation: `{"op": NAME, "args": [E]}` with a name of `OPS`.

Evaluation is pure. It raises `ExpressionError`, which ends the plan with a recorded result. `and` and `or` evaluate
their second argument only if the first does not decide, so the second may rely on the first. No value is larger than
`MAX_TEXT` or `MAX_BITS`, so a plan cannot exhaust memory.
"""

from __future__ import annotations

import base64
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values import cbor
from demiurge.values.refs import ref_of

__all__ = ["CONSTANTS", "OPS", "Environment", "ExpressionError", "evaluate", "parse_ref", "references"]

Environment = Mapping[str, Any]
"""`{"input": value, "vars": {name: value}, "steps": {id: value}, "event": value}`; the last two may be absent."""

MAX_TEXT = 1 << 20
"""The longest text that `concat` makes, in characters."""

MAX_BITS = 256
"""The largest whole number that arithmetic makes, in bits."""

CONSTANTS = frozenset({"text", "nat", "int", "bool", "dec128", "hash", "uuid", "time_ns", "duration_ns"})


class ExpressionError(Exception):
    """An expression has no value: a missing reference or field, a wrong type, a division by zero. `code` is the code of
    the world plan's recorded end."""

    code = "plan_failed"


def evaluate(expression: Any, env: Environment) -> Any:
    """Returns the value of `expression` under `env`. Raises ExpressionError for any fault in either."""
    try:
        return _value(expression, env)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, InvalidValue) as error:
        raise ExpressionError(f"not an expression: {type(error).__name__}") from error


def references(expression: Any) -> Iterator[str]:
    """Yields every reference that an expression may read, in the order written; none if it is not an expression."""
    if not isinstance(expression, Mapping):
        return
    if "op" in expression:
        inner: Any = expression.get("args", ())
    else:
        form, body = next(iter(expression.items()), ("", None))
        if form == "ref" and isinstance(body, str):
            yield body
        inner = _inner(form, body)
    if isinstance(inner, Sequence) and not isinstance(inner, str):
        for part in inner:
            yield from references(part)


def _inner(form: str, body: Any) -> Any:
    """Returns the expressions inside a form."""
    if form in ("list", "set"):
        return body
    if not isinstance(body, Mapping):
        entries = body if form == "map" and isinstance(body, Sequence) else ()
        return [part for entry in entries if isinstance(entry, Mapping) for part in entry.values()]
    return list(body.values()) if form == "record" else [body.get("value")] if form == "variant" else ()


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
    name, operands = expression["op"], expression.get("args", ())
    if name not in OPS:
        raise ExpressionError(f"unknown operation {name!r}")
    arity, run = OPS[name]
    if len(operands) != arity:
        raise ExpressionError(f"{name} takes {arity} arguments, not {len(operands)}")
    args = [_value(operands[0], env)]
    if name in DECIDES and args[0] is DECIDES[name]:
        return args[0]
    args += [_value(arg, env) for arg in operands[1:]]
    try:
        return run(*args)
    except (TypeError, ValueError, KeyError, IndexError, ArithmeticError, InvalidValue) as error:
        raise ExpressionError(f"{name}: {type(error).__name__}") from error


def _reference(path: str, env: Environment) -> Any:
    head, fields = parse_ref(path)
    if head == "plan" and fields[:1] == ("input",):
        value, fields = env["input"], fields[1:]
    elif head == "event" and "event" in env:
        value = env["event"]
    elif head.startswith("var:") and head[4:] in env["vars"]:
        value = env["vars"][head[4:]]
    elif head.startswith("step:") and head[5:] in env.get("steps", ()):
        value = env["steps"][head[5:]]
    else:
        raise ExpressionError(f"{path} is not set")
    for name in fields:
        value = _get(value, name)
    return value


@lru_cache(4096)
def parse_ref(path: str) -> tuple[str, tuple[str, ...]]:
    """Returns `@var:name.a.b` as `("var:name", ("a", "b"))`."""
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


def _set(parts: Any, env: Environment) -> list[Any]:
    """Returns the elements without repetitions, in the order of their canonical CBOR, as sets of a schema are
    ordered."""
    found = {cbor.encode_item(value): value for value in [_value(part, env) for part in parts]}
    return [found[key] for key in sorted(found)]


_FORMS: Mapping[str, Callable[[Any, Environment], Any]] = {
    "ref": _reference,
    "null": lambda _body, _env: None,
    "bytes_b64": lambda body, _env: base64.b64decode(body, validate=True),
    "record": lambda body, env: {name: _value(part, env) for name, part in body.items()},
    "list": lambda body, env: [_value(part, env) for part in body],
    "set": _set,
    "map": _map,
    "variant": lambda body, env: {"$tag": body["tag"], "$value": _value(body.get("value"), env)},
}


def _numbers(run: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(left: Any, right: Any) -> Any:
        if type(left) is not int or type(right) is not int:
            raise TypeError
        made = run(left, right)
        if made.bit_length() > MAX_BITS:
            raise OverflowError
        return made

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


def _concat(left: str, right: str) -> str:
    if len(left) + len(right) > MAX_TEXT:
        raise OverflowError
    return left + right


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
    """Returns whether two values are equal. A bool never equals a number, unlike in Python."""
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
    "concat": (2, _texts(_concat)),
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
"""Operation name -> (number of arguments, function)."""

DECIDES: Mapping[str, bool] = {"and": False, "or": True}
"""Operation -> the value of its first argument that decides the result, so that the second is not evaluated."""
