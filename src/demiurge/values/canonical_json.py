"""Strict JSON: `encode` writes the one form of RFC 8785, and `parse` accepts only text that every parser reads alike.

Model output and documents from outside are read strictly, because two lenient parsers may read the same text
differently: policy would then decide on one value while the handler gets another.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

import rfc8785
from pydantic_core import from_json, to_json

from demiurge.errors import InvalidValue

MAX_DEPTH = 128
"""The deepest nesting of arrays and objects that `parse` accepts."""

MAX_INTEGER = 2**53 - 1
"""The largest integer that RFC 8785 writes as a number."""


def encode(value: Any) -> bytes:
    """Returns the RFC 8785 form of `value`: UTF-8, keys sorted by UTF-16 units, numbers as ECMAScript writes them.

    Raises InvalidValue (`invalid_json`) for integers beyond ±(2^53 - 1), NaN, infinities, lone surrogates, keys that
    are not text and anything that is not JSON. A float from 2^53 to 1e21 without a fraction is written like an integer,
    and is read back as one.
    """
    try:
        return to_json(_ordered(value))
    except (TypeError, ValueError, RecursionError):  # something rarer, or nothing that JSON can write
        pass
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError):
        raise _invalid("The value has no RFC 8785 form.") from None


def parse(text: str | bytes) -> Any:
    """Returns the value of a JSON text. Raises InvalidValue (`invalid_json`), whose message never quotes the text.

    Besides bad syntax these are refused: repeated keys, NaN and infinities, numbers beyond a double's range, bytes that
    are not UTF-8, lone surrogates (escaped or not), a byte order mark, and nesting deeper than MAX_DEPTH.
    """
    plain = _plain_object(text)
    if plain is not None:
        return plain
    try:
        source = text.decode() if isinstance(text, bytes) else text
        value = _DECODER.decode(source)
        if "\\u" in source or isinstance(text, str):
            _refuse_surrogates(source, value)
    except json.JSONDecodeError as problem:
        reason = problem.msg[:1].lower() + problem.msg[1:]
        message = f"Not valid JSON at line {problem.lineno}, column {problem.colno}: {reason}."
        raise _invalid(message) from None
    except UnicodeError:
        raise _invalid("The text is not valid Unicode (UTF-8, without lone surrogates).") from None
    except RecursionError:
        raise _invalid(_TOO_DEEP) from None
    except ValueError:
        raise _invalid("A number has too many digits.") from None
    if source.count("[") + source.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _invalid(_TOO_DEEP)
    return value


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Returns the object that a JSON text holds. Raises InvalidValue as `parse`, also if the top level is no object."""
    value = parse(text)
    if not isinstance(value, dict):
        raise _invalid("The top level must be an object.")
    return value


_TOO_DEEP = f"Arrays and objects are nested deeper than {MAX_DEPTH} levels."


_ORDINARY = frozenset([str, bool, type(None)])
_PLAIN = _ORDINARY | {int}
_TEXT = frozenset([str])
_LONGEST_PLAIN = 4096


def _ordered(value: Any) -> Any:
    """Returns `value` with sorted object keys, so that pydantic's writer gives its RFC 8785 form in less time.

    Raises TypeError for values that the two writers may write differently: floats, long integers, subclasses, keys that
    are not ASCII.
    """
    kind = type(value)
    if kind in _ORDINARY or (kind is int and -MAX_INTEGER <= value <= MAX_INTEGER):
        return value
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)) or not "".join(value).isascii():
            raise TypeError
        return {key: item if type(item := value[key]) in _ORDINARY else _ordered(item) for key in sorted(value)}
    if kind is list:
        return [item if type(item) in _ORDINARY else _ordered(item) for item in value]
    raise TypeError


def _plain_object(text: str | bytes) -> dict[str, Any] | None:
    """Returns the value of a short flat object, in half the time of `parse`; None for any other text, valid or not.

    Such an object can break no rule of `parse`: nothing is nested, no number is a float or long, and the text has one
    colon for each key, so no key is repeated.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_PLAIN:
        return None
    try:
        value = from_json(text)
    except (TypeError, ValueError):  # a lone surrogate is a TypeError
        return None
    if type(value) is dict and len(value) == text.count(":") and _PLAIN.issuperset(map(type, value.values())):
        return value
    return None


def _invalid(message: str) -> InvalidValue:
    return InvalidValue(message, code="invalid_json")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _invalid("An object has the same key twice.")
    return value


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _invalid("A number is beyond the range of a double.")
    return number


def _constant(_: str) -> NoReturn:
    raise _invalid("NaN and Infinity are not JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


def _refuse_surrogates(source: str, value: Any) -> None:
    """Raises UnicodeEncodeError for a lone surrogate, raw in `source` or made by an escape."""
    source.encode()
    if "\\u" in source:
        json.dumps(value, ensure_ascii=False).encode()


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
    return depth
