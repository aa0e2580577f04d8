"""`adapter_of`: pydantic's adapter of a type. One of a class is made once, because several parts of a tool need it and
tools share their types; it takes about a millisecond."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

__all__ = ["adapter_of"]


def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Returns the adapter of a type. Raises what pydantic raises for a type that it does not support, such as
    PydanticUserError, PydanticSchemaGenerationError, NameError or TypeError."""
    # other types are not kept: `int | str` and `str | int` are equal, and pydantic tries their parts in order
    return _of_class(kind) if isinstance(kind, type) else _made(kind)


def _made(kind: Any) -> TypeAdapter[Any]:
    adapter = TypeAdapter(kind)
    _ = adapter.core_schema["type"]  # a type with an unresolved name raises only when it is used
    return adapter


_of_class = lru_cache(maxsize=128)(_made)
