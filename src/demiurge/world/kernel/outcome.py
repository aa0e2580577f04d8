"""The outcome of `advance`: the next state with its records and effects, or the blob that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.record import Record
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = ["Advance", "Need", "Sent"]


@dataclass(frozen=True, slots=True)
class Sent:
    """An event for another unit. `id` is made of the sending unit, sequence number and index; the target uses it as its
    ingress id. `caller` is the sending unit, with the tenant and the roles of the caller for whom it sends."""

    id: str
    target: Unit
    schema: str
    value: Any
    cause: Mapping[str, Any]
    caller: Caller


@dataclass(frozen=True, slots=True)
class Advance:
    """The outcome of one step. `intents` must be performed; `asks` wait for a person; `answers` are results for running
    tools: (intent of the request, result)."""

    state: UnitState
    records: tuple[Record, ...]
    intents: tuple[OpenIntent, ...] = ()
    outbox: tuple[Sent, ...] = ()
    new_blobs: tuple[bytes, ...] = ()
    answers: tuple[tuple[bytes, Mapping[str, Any]], ...] = ()
    asks: tuple[OpenIntent, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """The step cannot run without this blob: load it and call again."""

    ref: Ref
