"""A fast way to construct frozen dataclasses.

A frozen dataclass sets each field through `object.__setattr__`, so constructing a record of fifteen fields takes longer
than most stages of a call. `fast_constructor` makes a class with the same slots that is not frozen: its constructor
sets the fields as usual and then changes the object's class to the frozen one. Users see the frozen class only.
"""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from typing import Any, TypeVar

__all__ = ["fast_constructor"]

T = TypeVar("T")


def fast_constructor(kind: type[T]) -> type[T]:
    """Returns a callable that takes the arguments of `kind` and returns an equal object in a third of the time. `kind`
    is a frozen and slotted dataclass that inherits no slots."""
    finish = getattr(kind, "__post_init__", None)

    def become(self: Any) -> None:
        self.__class__ = kind
        if finish is not None:
            finish(self)

    entries: list[Any] = [
        (
            entry.name,
            entry.type,
            field(default=entry.default, default_factory=entry.default_factory, init=entry.init, kw_only=entry.kw_only),
        )
        for entry in fields(kind)  # type: ignore[arg-type]  # a dataclass
    ]
    namespace = {"__post_init__": become}
    return make_dataclass(kind.__name__, entries, namespace=namespace, slots=True, eq=False, repr=False)
