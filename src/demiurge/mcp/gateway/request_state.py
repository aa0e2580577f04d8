"""The state that a client hands back with its answer: which call of which caller in which world waits.

It is signed with a key of the world's user, so a client can neither forge it nor use that of another caller.
"""

from __future__ import annotations

import base64
import hmac
from hashlib import sha256

from demiurge.values import canonical_json
from demiurge.values.caller import Caller

__all__ = ["RequestStates"]

_LABEL = b"demiurge gateway request state 1\0"


class RequestStates:
    """Makes and reads the states of one world. `key`: at least 32 secret bytes."""

    def __init__(self, key: bytes, world_id: str) -> None:
        self._key, self._world = hmac.digest(key, _LABEL, "sha256"), world_id

    def seal(self, caller: Caller, call_id: str, approval: str = "") -> str:
        """Returns the state of a call of `caller` that waits for `approval`; each of its waits has another state."""
        what = f"{call_id}.{approval}"
        return f"{base64.urlsafe_b64encode(self._mac(caller, what)).decode().rstrip('=')}.{what}"

    def open(self, caller: Caller, state: str) -> tuple[str, str] | None:
        """Returns the id of the call and what it waited for; None if the state is not one that `seal` made for this
        caller."""
        mac, _, what = state.partition(".")
        expected = base64.urlsafe_b64encode(self._mac(caller, what)).rstrip(b"=")
        given = mac.encode("utf-8", "replace")
        call_id, _, approval = what.partition(".")
        return (call_id, approval) if what and hmac.compare_digest(given, expected) else None

    def _mac(self, caller: Caller, what: str) -> bytes:
        digest = sha256(what.encode("utf-8", "replace")).hexdigest()
        bound = canonical_json.encode([self._world, caller.actor, caller.tenant, digest])
        return hmac.digest(self._key, bound, "sha256")
