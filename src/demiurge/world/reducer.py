"""Module reducers: their arguments and their answers.

A module's reducer is a plain function `(state, event, context) -> Step` that makes a unit's cell. It does no I/O and
reads no clock: its arguments hold everything that it may know, and the `Step` it returns holds everything that it
wants. A step states *changes*, not a new state, so the cost of checking, digesting and storing it does not grow with
the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.spec import ToolSpec
from demiurge.values.refs import Ref
from demiurge.world.record import Stamp

__all__ = ["EffectRequest", "Emit", "MissingBlob", "Reducer", "ReducerContext", "Step"]


class MissingBlob(BaseException):
    """A step needs a blob that it does not have: `advance` answers `Need`, and the step runs again with the blob.

    Not an `Exception`, so that a reducer's own error handling cannot swallow it.
    """

    def __init__(self, ref: Ref) -> None:
        super().__init__(ref)
        self.ref = ref


@dataclass(frozen=True, slots=True)
class Emit:
    """An event to raise. `value` is checked against `schema` before the step takes effect. `budget` is the share of the
    run's budget that the event takes along to another unit."""

    schema: str
    value: Any
    budget: Allowance | None = None


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """An effect to ask for, of a kind that the module declares. Its outcome returns as an event that carries `key`.

    `params` are plain data, checked against the effect's schema; `grant` is needed only if the module declares several
    for the kind.
    """

    kind: str
    params: Mapping[str, Any]
    key: str = ""
    grant: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A reducer's answer: changes to its cell, events, the blobs that those name, and effects.

    `set` replaces fields of the state record, `append` adds to its list fields, `delete` removes the cell. `events` are
    raised first, then `effects` are asked for, in their order.
    """

    set: Mapping[str, Any] = field(default_factory=dict)
    append: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    events: Sequence[Emit] = ()
    blobs: Sequence[bytes] = ()
    delete: bool = False
    effects: Sequence[EffectRequest] = ()


@dataclass(frozen=True, slots=True)
class ReducerContext:
    """The outside as of this step: its stamp, where the event came from, settings, tool policy and blobs."""

    stamp: Stamp
    key: str
    origin: Literal["external", "unit", "derived"]
    settings: Mapping[str, Any]
    decide_tool: Callable[[str], str]
    """The manifest's tool policy: `allow`, `deny` or `require_approval` for a tool id."""
    blobs: Mapping[Ref, bytes]
    cause: int
    """The sequence number of the event's record."""
    toolset: Mapping[str, ToolSpec] = field(default_factory=dict)
    """The manifest's tools by name, also those that the tool policy denies."""
    schemas: Container[str] = ()
    """The names of the manifest's schemas. An event of any other schema cannot be emitted."""
    sender: str | None = None
    """The name of the unit that sent the event, or whose effect did; None for any other event."""

    def blob(self, ref: Ref) -> bytes:
        """Returns the bytes at `ref`. Raises MissingBlob, which the kernel handles."""
        try:
            return self.blobs[ref]
        except KeyError:
            raise MissingBlob(ref) from None

    def entropy(self, label: str) -> bytes:
        """Returns 32 bytes that are the same at every replay and different for every step and label."""
        seed = hashlib.sha256(self.stamp.entropy + self.cause.to_bytes(8, "big")).digest()
        return hashlib.sha256(seed + label.encode()).digest()


@dataclass(frozen=True, slots=True)
class Reducer:
    """A module's code: the function, and its source, whose digest the manifest pins."""

    reduce: Callable[[Mapping[str, Any] | None, Any, ReducerContext], Step]
    source: bytes
