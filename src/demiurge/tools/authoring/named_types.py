"""Resolves the type behind an annotation: an alias, a NewType, Annotated, a subclass."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

__all__ = ["argument_of", "is_union", "named_type"]


def named_type(annotation: Any) -> Any:
    """Returns the type behind `Annotated[T, ...]`, `NewType("N", T)`, `type N = T` and `Literal[None]`; NoneType for
    None; anything else unchanged."""
    try:
        found = _resolve(annotation)
    except NameError:
        return annotation
    return annotation if isinstance(found, str) else found  # an alias of a type that is not defined yet


def _resolve(annotation: Any) -> Any:
    while True:
        origin = get_origin(annotation)
        if annotation is None or (origin is Literal and get_args(annotation) == (None,)):
            return type(None)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif _is_alias(annotation):
            annotation = annotation.__value__
        elif _is_alias(origin):
            annotation = _alias_value(origin, get_args(annotation))
        else:
            return annotation


def is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def argument_of(base: type, cls: type, given: tuple[Any, ...]) -> Any:
    """Returns the argument for the parameter of `base[P]` in its subclass `cls[given]`; a TypeVar or None if there
    is none."""
    if cls is base:
        return given[0] if given else None
    known = dict(zip(getattr(cls, "__parameters__", ()), given, strict=False))
    for parent in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(parent) or parent
        if isinstance(origin, type) and issubclass(origin, base):
            return argument_of(base, origin, tuple(_substitute(known, argument) for argument in get_args(parent)))
    return None


def _substitute(known: Mapping[Any, Any], kind: Any) -> Any:
    """Returns the type with its parameters filled in."""
    if kind in known:
        return known[kind]
    wanted = getattr(kind, "__parameters__", ())
    return kind[tuple(known.get(parameter, parameter) for parameter in wanted)] if wanted else kind


def _is_alias(kind: Any) -> bool:
    """Returns whether this is `type N = T` of Python 3.12, or the same from typing_extensions."""
    return type(kind).__name__ == "TypeAliasType"


def _alias_value(alias: Any, given: tuple[Any, ...]) -> Any:
    """Returns the value of a generic alias with its parameters filled in."""
    return _substitute(dict(zip(alias.__type_params__, given, strict=False)), alias.__value__)
