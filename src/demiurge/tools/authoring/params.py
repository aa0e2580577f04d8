"""Converts a tool's parameters and results: JSON text into a value of the declared type, and a value into JSON.

Both directions are strict: no `"5"` for 5, no unknown fields, no value that its own type would not accept back. The
phrases of a failure name *declared* fields and the rules of the schema (`argument_errors`), never a value or the text
of an exception.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from itertools import islice
from math import isfinite
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_json

from demiurge.errors import InvalidValue
from demiurge.tools.argument_faults import ArgumentFault, explained, unknown_fields
from demiurge.tools.authoring.adapters import adapter_of
from demiurge.tools.authoring.argument_errors import fault_of_error, fault_of_rule
from demiurge.tools.authoring.bytes_text import with_text_bytes
from demiurge.tools.authoring.exactness import inexact, may_be_inexact
from demiurge.tools.authoring.kinds import (
    ANY,
    flat_types,
    has_open_dataclasses,
    has_sent_only_fields,
    is_flat,
    kinds_of,
    unwritable,
)
from demiurge.tools.authoring.schema import reason
from demiurge.tools.errors import ToolValidationError
from demiurge.values.article import with_article

__all__ = ["ParamsCodec", "ParamsDump", "ResultCodec", "has_params_names", "params_names"]

_MAX_EXPLAINED = 1_000
"""The maximum number of faults that are inspected; each costs some microseconds."""


class ParamsCodec:
    """Parses a tool's arguments. `schema` is the compiled input schema; it may be shown. `extra`: what
    to do with fields that the type does not have.

    Raises InvalidValue if pydantic does not support the type."""

    def __init__(
        self, params_type: Any, schema: Mapping[str, Any], *, extra: Literal["forbid", "ignore"] = "forbid"
    ) -> None:
        self._schema = schema
        self._extra = extra
        self._may_be_inexact = may_be_inexact(schema)
        self._empty = params_type is None or params_type is type(None)
        self._validate = _adapter(dict[str, Any] if self._empty else params_type).validator.validate_json
        self._dump = None if self._empty else ParamsDump(params_type)

    def parse(self, text: str | bytes) -> Any:
        """Returns the arguments as a value of the declared type; None for a tool without parameters.

        `text` is one JSON object that was already parsed strictly. Raises ToolValidationError with safe `fields`."""
        try:
            value = self._validate(text, strict=True, extra=self._extra, by_alias=True, by_name=False)
        except ValidationError as error:
            raise self._refusal(error) from error
        except Exception as error:  # raised by a validator; pydantic wraps only ValueError and AssertionError
            raise _refused("a validator broke", [ArgumentFault("", "is not valid")]) from error
        if self._may_be_inexact:
            faults = list(islice(inexact(self._schema, from_json(text)), _MAX_EXPLAINED))
            if faults:
                found = [fault_of_rule(self._schema, *fault) for fault in faults]
                raise _refused("arguments break their schema", found)
        if self._empty:
            if value:
                raise _refused("arguments given", [unknown_fields("", tuple(value), ())])
            return None
        return value

    def dump(self, value: Any) -> tuple[Any, bool]:
        """Does the same as ParamsDump; returns `(None, True)` for a tool without parameters."""
        return (None, True) if self._dump is None else self._dump(value)

    def _refusal(self, error: ValidationError) -> ToolValidationError:
        if error.error_count() > _MAX_EXPLAINED:
            return ToolValidationError("arguments break their type", fields=("the object has too many faults to list",))
        details = error.errors(include_url=False, include_input=False)
        return _refused("arguments break their type", [fault_of_error(self._schema, entry) for entry in details])


def _refused(message: str, faults: Iterable[ArgumentFault]) -> ToolValidationError:
    found = explained(faults)
    return ToolValidationError(message, fields=found.fields, for_model=found.for_model)


class ParamsDump:
    """Converts parameters back to JSON, to tell calls apart: `dump(value) -> (tree, whole)`.

    `params_type`: a dataclass or a pydantic model with fields (`has_params_names`). `tree` has the value's fields by
    their names in Python, and a model's extras; sets are in an order that does not depend on the process. A field
    that its type does not read back unchanged (a masked secret, a field excluded from dumps) is not in `tree`, and
    then `whole` is False. `whole` is also False if a constructor took values that the object does not keep. Raises
    InvalidValue if pydantic does not support the type, ToolValidationError for a value that cannot be written."""

    def __init__(self, params_type: Any) -> None:
        self._adapter = _adapter(params_type)
        self._names = params_names(params_type)
        self._may_hold_sets = not kinds_of(self._adapter.core_schema).isdisjoint((ANY, "frozenset", "set"))
        self._is_flat = is_flat(self._adapter.core_schema)
        self._is_exactly = _exact_type_test(self._adapter)
        self._may_hide = has_sent_only_fields(self._adapter.core_schema)
        self._may_be_open = has_open_dataclasses(self._adapter.core_schema)

    def __call__(self, value: Any) -> tuple[dict[str, Any], bool]:
        serializer = self._adapter.serializer
        try:
            if self._is_exactly(value):
                return from_json(serializer.to_json(value)), True
            encoded = serializer.to_json(value, warnings="error", by_alias=False, round_trip=True)
            tree = from_json(encoded)
            plain = tree
            if self._may_hold_sets and b"[" in encoded:
                plain = serializer.to_python(value, warnings="error", by_alias=False, round_trip=True)
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            raise ToolValidationError("the parameters can't be written as JSON") from error
        if self._is_flat:
            return tree, True
        kept = self._kept(value, encoded, tree, plain)
        extras = _extras(value).keys()
        is_complete = extras.isdisjoint(self._names) and kept.keys() == {*self._names, *extras}
        return kept, is_complete and not self._may_hide and not (self._may_be_open and _has_unwritten_extras(value))

    def _kept(self, value: Any, encoded: bytes, tree: Any, plain: Any) -> dict[str, Any]:
        """Returns the fields and extras of `tree` that are read back unchanged."""
        try:
            again = self._adapter.validator.validate_json(encoded, strict=True, by_alias=False, by_name=True)
            before, after = self._parts(value), self._parts(again)
            return {
                name: _in_order(plain[name], tree[name])
                for name, part in before.items()
                if name in tree and name in after and bool(after[name] == part)
            }
        except Exception:  # noqa: BLE001  (a validator, or a value's own `==`, may raise anything)
            return {}

    def _parts(self, value: Any) -> dict[str, Any]:
        """Returns fields and extras by their names."""
        return {**_extras(value), **{name: getattr(value, name) for name in self._names}}


class ResultCodec:
    """Checks a tool's result and converts it to JSON. `problem`: what in the type JSON cannot hold, None if nothing.
    Raises InvalidValue if pydantic does not support the type."""

    def __init__(self, result_type: Any) -> None:
        adapter = _adapter(type(None) if result_type is None else with_text_bytes(result_type))
        self._container = _container(result_type)
        self.problem = unwritable(adapter.core_schema)
        kinds = kinds_of(adapter.core_schema)
        self._may_repeat_keys = ANY in kinds
        self._may_hold_nan = not kinds.isdisjoint((ANY, "float"))
        self._plain: Callable[..., Any] = adapter.serializer.to_python
        self._dump: Callable[..., bytes] = adapter.serializer.to_json
        self._is_exactly = _exact_type_test(adapter)
        self._class = _class_of(get_args(result_type)[0] if self._container is not None else result_type)
        self._validate = adapter.validator.validate_json

    def dump(self, value: Any) -> bytes:
        """Returns the value as JSON bytes that its own type accepts back; a list and a tuple stand for each other.
        Raises ToolValidationError."""
        try:
            if self._is_exactly(value):
                encoded = self._dump(value)
                self._validate(encoded, strict=True)
                return encoded
            if self._container is not None and isinstance(value, list | tuple):
                value = self._container(value)
            if self._class is not None:
                self._refuse_other_classes(value)
            encoded = self._dump(value, warnings="error", by_alias=True)
            self._validate(encoded, strict=True)
            if self._may_repeat_keys and to_json(from_json(encoded)) != encoded:  # a quick test that rules out most
                _WITHOUT_REPEATS.decode(encoded.decode())
            if self._may_hold_nan and b"null" in encoded:  # NaN and infinity are written as null
                _refuse_infinite(self._plain(value, warnings="error", by_alias=True))
        except (PydanticSerializationError, ValidationError, ValueError, TypeError, RecursionError) as error:
            raise ToolValidationError("the result breaks its declared type") from error
        return encoded

    def _refuse_other_classes(self, value: Any) -> None:
        """Raises TypeError for an object of another class: pydantic would write any dataclass that has the fields."""
        assert self._class is not None
        for item in value if self._container is not None else (value,):
            if not isinstance(item, self._class):
                raise TypeError(f"{type(item).__name__} is not {with_article(self._class.__name__)}")

    def load(self, encoded: bytes) -> Any:
        """Returns a value of the declared type from the output of `dump`. Raises ToolValidationError."""
        try:
            return self._validate(encoded, strict=True)
        except ValidationError as error:
            raise ToolValidationError("the stored result breaks its declared type") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> None:
    """Raises ValueError for `{1: "a", "1": "b"}` in JSON: a reader takes one of the two, and not all readers the
    same."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("two keys are the same as text")


_WITHOUT_REPEATS = json.JSONDecoder(object_pairs_hook=_without_repeats)


def _refuse_infinite(value: Any) -> None:
    """Raises ValueError for NaN and infinity anywhere in a value."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("a number is not finite")
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        for item in value:
            _refuse_infinite(item)


def _container(kind: Any) -> Callable[[Any], Any] | None:
    """Returns `list`, `tuple` or `iter` for a type of any number of items, else None."""
    if get_origin(kind) is Iterable:
        return iter
    if get_origin(kind) is list or (get_origin(kind) is tuple and get_args(kind)[1:] == (...,)):
        return list if get_origin(kind) is list else tuple
    return None


def _class_of(kind: Any) -> type | None:
    """Returns the class of a dataclass or a pydantic model, also of one with type arguments; None for anything else."""
    kind = get_origin(kind) or kind
    is_one = isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel))
    return kind if is_one else None


def params_names(kind: Any) -> tuple[str, ...]:
    """Returns the fields of a dataclass or a pydantic model; none for any other type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return tuple(entry.name for entry in dataclasses.fields(kind))
    return ()


def has_params_names(value: Any) -> bool:
    """Returns whether a value has named parameters: it is a dataclass, or a pydantic model with fields."""
    if isinstance(value, type | Enum | RootModel):
        return False
    return isinstance(value, BaseModel) or dataclasses.is_dataclass(value)


def _extras(value: Any) -> dict[str, Any]:
    """Returns what a pydantic model holds besides its fields; empty for anything else."""
    return (value.model_extra or {}) if isinstance(value, BaseModel) else {}


def _has_unwritten_extras(value: Any) -> bool:
    """Returns whether a dataclass, or one within it, holds more than its fields: pydantic accepts extras there, but
    does not write them."""
    if dataclasses.is_dataclass(value):
        content = dict(getattr(value, "__dict__", {}))
        takes_extras = getattr(type(value), "__pydantic_config__", {}).get("extra") == "allow"
        if takes_extras and not content.keys() <= set(params_names(type(value))):
            return True
        return any(_has_unwritten_extras(getattr(value, name)) for name in params_names(type(value)))
    if isinstance(value, BaseModel):
        return any(_has_unwritten_extras(part) for part in (*value.__dict__.values(), *_extras(value).values()))
    if isinstance(value, Mapping):
        return any(_has_unwritten_extras(part) for part in value.values())
    return isinstance(value, list | tuple | set | frozenset) and any(map(_has_unwritten_extras, value))


def _exact_type_test(adapter: TypeAdapter[Any]) -> Callable[[Any], bool]:
    """Returns a test whether a value of a flat type has exactly the types of its fields; it is always False for any
    other type. For such a value pydantic has no warnings when it writes it, and turning warnings into errors takes
    longer than all the rest."""
    if not is_flat(adapter.core_schema):
        return lambda value: False
    kind, fields = adapter.core_schema["cls"], flat_types(adapter.core_schema)
    names, types = list(fields), list(fields.values())
    return lambda value: type(value) is kind and [type(getattr(value, name, None)) for name in names] == types


def _in_order(plain: Any, tree: Any) -> Any:
    """Returns `tree`, the JSON of `plain`, with the items of sets sorted."""
    if isinstance(tree, list) and isinstance(plain, set | frozenset | list | tuple) and len(plain) == len(tree):
        items = [_in_order(*pair) for pair in zip(plain, tree, strict=True)]
        return sorted(items, key=repr) if isinstance(plain, set | frozenset) else items
    if isinstance(tree, dict) and isinstance(plain, dict) and len(plain) == len(tree):
        return {name: _in_order(part, tree[name]) for name, part in zip(tree, plain.values(), strict=True)}
    return tree


def _adapter(kind: Any) -> TypeAdapter[Any]:
    try:
        return adapter_of(kind)
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError) as error:
        raise InvalidValue(f"{kind!r} can't be checked: {reason(error)}") from error
