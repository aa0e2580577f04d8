"""`Ingress`: the only way in which anything from outside reaches a unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.values.refs import Ref
from demiurge.world.record import Cause, Record, Stamp

__all__ = ["Ingress"]


@dataclass(frozen=True, slots=True)
class Ingress:
    """One input of `advance` from outside. `id` makes it idempotent within the unit.

    kind and body: `event` {schema, value}; `receipt` {intent, status, payload, secrets?: [{alias, version, digest?}],
    connection?: {id, provider, grants, caller, lent, read}, asks?: {ref, state_ref, spec_hash, args_digest, tied?,
    expires_ns?, usage?}, untrusted?: [tool]}, `asks` being the questions to a person that a call ended its leg with,
    and `untrusted` the tools whose text the effect has read or brings; `approval` {intent, verdict, reason, by,
    call_ref?, answer_ref?}: `call_ref` is the call with the arguments that the person changed, `answer_ref` the answer
    to a question; `approval_rule` {bound, pattern, expires_ns, count, reason, by, nonce} and `approval_rule_ended` {id,
    by}: see `kernel.standing_rules`; `capability_request` {parent, ordinal, kind, params}; `fork` {world, from,
    position}: the unit moves to a new world; `erased` {ref, actor, why}; `loss` {what, actor, why}; `manifest_replaced`
    {ref, old, how}; `call_read` {}: the caller was given the answer of the call; `doubt_decided` and `doubt_settled`:
    see `kernel.doubts`. `refs` are the blobs that the body exposes. `record` is its record in the journal, if the
    ingress is replayed."""

    kind: str
    id: str
    body: Mapping[str, Any]
    stamp: Stamp
    cause: Cause = None
    refs: tuple[Ref, ...] = ()
    record: Record | None = None

    @property
    def sender(self) -> Mapping[str, Any]:
        """The cause that the sending unit gave, `{unit, seq, index, ...}`; empty if no unit sent the ingress."""
        return {} if self.cause is None or isinstance(self.cause, int) else self.cause
