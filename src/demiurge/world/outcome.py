"""What goes into `advance` and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.values.refs import Ref
from demiurge.world.record import Cause, Record, Stamp
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = ["Advance", "Ingress", "Need", "Sent"]


@dataclass(frozen=True, slots=True)
class Ingress:
    """What comes in from outside `advance`. `id` makes it idempotent within the unit.

    kind and body: `event` {schema, value}; `receipt` {intent, status, payload, secrets?: [{alias, version, digest?}]};
    `approval` {intent, verdict, reason, by}; `capability_request` {parent, ordinal, kind, params}; `fork` {world, from,
    position}: the unit goes over to a new world; `erased` {ref, actor, why}. `refs` are the blobs that the body exposes; `record` is what the
    journal has of it, if it is replayed.
    """

    kind: str
    id: str
    body: Mapping[str, Any]
    stamp: Stamp
    cause: Cause = None
    refs: tuple[Ref, ...] = ()
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """An event for another unit: `id` is (unit, sequence number, index), which the target uses as its ingress id."""

    id: str
    target: Unit
    schema: str
    value: Any
    cause: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Advance:
    """The outcome. `intents` are to be performed, `asks` wait for a person; `answers` are results for running tools:
    (intent of the request, result)."""

    state: UnitState
    records: tuple[Record, ...]
    intents: tuple[OpenIntent, ...] = ()
    outbox: tuple[Sent, ...] = ()
    new_blobs: tuple[bytes, ...] = ()
    answers: tuple[tuple[bytes, Mapping[str, Any]], ...] = ()
    asks: tuple[OpenIntent, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """The step can't run without this blob: load it and call again."""

    ref: Ref
