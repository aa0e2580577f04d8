"""What a reducer is given and what it may answer.

A reducer is a plain function `(state, event, context) -> Step`. It does no I/O and reads no clock: everything it may
know is in its arguments, and everything it wants is in the `Step` it returns. A step states *changes*, not a new
state, so the cost of checking, digesting and storing it does not grow with the state.
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
    """A step needs a blob that it was not given: `advance` answers `Need`, and the step runs again with it.

    Not an `Exception`, so that a reducer's own error handling can't swallow it.
    """

    def __init__(self, ref: Ref) -> None:
        super().__init__(ref)
        self.ref = ref


@dataclass(frozen=True, slots=True)
class Emit:
    """An event to raise. `value` is checked against `schema` before the step takes effect. `budget`: the share of the
    run's that it takes along to another unit."""

    schema: str
    value: Any
    budget: Allowance | None = None


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """An effect to ask for, of a kind that the module declares. What comes of it returns as an event, which says `key`.

    `params` are plain data, checked against the effect's schema; `grant` is needed only where the module declares
    several for the kind.
    """

    kind: str
    params: Mapping[str, Any]
    key: str = ""
    grant: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a reducer answers: changes to its cell, events, blobs that those name, and effects.

    `set` replaces fields of the state record, `append` adds to its list fields, `delete` removes the cell. `events`
    are raised first, then `effects` are asked for, in their order.
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
    """The number of the event's record."""
    toolset: Mapping[str, ToolSpec] = field(default_factory=dict)
    """The manifest's tools by name, whatever the policy says of them."""
    schemas: Container[str] = ()
    """Which schemas the manifest has: an event of another one can't be emitted."""

    def blob(self, ref: Ref) -> bytes:
        """The bytes at `ref`. Raises MissingBlob, which the kernel handles."""
        try:
            return self.blobs[ref]
        except KeyError:
            raise MissingBlob(ref) from None

    def entropy(self, label: str) -> bytes:
        """32 bytes that are the same at every replay, different for every step and label."""
        seed = hashlib.sha256(self.stamp.entropy + self.cause.to_bytes(8, "big")).digest()
        return hashlib.sha256(seed + label.encode()).digest()


@dataclass(frozen=True, slots=True)
class Reducer:
    """A module's code: the function, and the source that is pinned by the manifest's hash."""

    reduce: Callable[[Mapping[str, Any] | None, Any, ReducerContext], Step]
    source: bytes
