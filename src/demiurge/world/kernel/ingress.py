"""What comes in: the only way in which anything from outside reaches a unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.values.refs import Ref
from demiurge.world.record import Cause, Record, Stamp

__all__ = ["Ingress"]


@dataclass(frozen=True, slots=True)
class Ingress:
    """What comes in from outside `advance`. `id` makes it idempotent within the unit.

    kind and body: `event` {schema, value}; `receipt` {intent, status, payload, secrets?: [{alias, version, digest?}],
    connection?: {id, provider, grants, caller, lent, read}};
    `approval` {intent, verdict, reason, by}; `capability_request` {parent, ordinal, kind, params}; `fork` {world, from,
    position}: the unit goes over to a new world; `erased` {ref, actor, why}; `loss` {what, actor, why}; `doubt_decided`
    and `doubt_settled`: see `kernel.doubts`. `refs` are the blobs that the body
    exposes; `record` is what the journal has of it, if it is replayed.
    """

    kind: str
    id: str
    body: Mapping[str, Any]
    stamp: Stamp
    cause: Cause = None
    refs: tuple[Ref, ...] = ()
    record: Record | None = None

    @property
    def sender(self) -> Mapping[str, Any]:
        """What the unit that sent it says: `{unit, seq, index, ...}`; nothing where it is not from a unit."""
        return {} if self.cause is None or isinstance(self.cause, int) else self.cause
