"""JSON values for a schema: some that fit it, and everything that is one step away from a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_OTHERS: tuple[Any, ...] = (None, True, False, 0, 1, -7, 1.5, "", "zz", [], {}, [None], {"zz": 1})
_EXTRA = "zz_extra"


def samples(schema: Any) -> Iterator[Any]:
    """The value with all that the schema names, and the one with only what it requires. Knows the keywords of the
    corpora."""
    yield _sample(schema, full=True)
    yield _sample(schema, full=False)


def _sample(schema: Any, *, full: bool) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return _sample(schema[keyword][0], full=full)
    kind = schema.get("type", "string")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            names = schema.get("properties", {})
            wanted = names if full else schema.get("required", ())
            return {name: _sample(names.get(name, {}), full=full) for name in wanted}
        case "array":
            count = max(int(full), schema.get("minItems", 0))
            return [_sample(schema.get("items", {}), full=full) for _ in range(count)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "x" * max(1, schema.get("minLength", 1))


def perturbed(value: Any) -> Iterator[Any]:
    """Copies of `value`, each with one change in one place: a field dropped, added or renamed, a value of another
    type, out of a range, out of a choice, an item of another type, one item more or less."""
    yield from (other for other in _near(value) if other is not value)
    if isinstance(value, dict):
        for key, item in value.items():
            rest = {name: kept for name, kept in value.items() if name != key}
            yield rest
            yield {**rest, f"{key}_": item}
            yield from ({**value, key: changed} for changed in perturbed(item))
        for item in (1, "zz", None):
            yield {**value, _EXTRA: item}
    elif isinstance(value, list):
        for index, item in enumerate(value[:3]):
            yield value[:index] + value[index + 1 :]
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in perturbed(item))
        yield from ([*value, other] for other in _OTHERS)
        yield [*value, *value]


def _near(value: Any) -> Iterator[Any]:
    yield from _OTHERS
    if isinstance(value, bool):
        yield str(value)
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 0.5, -value, 10**12, -(10**12), float(value), str(value), [value])
    elif isinstance(value, str):
        yield from (value.upper(), value + "x", value[:-1], "x" * 5000, [value], {"value": value})
    elif isinstance(value, list | dict):
        yield str(value)
