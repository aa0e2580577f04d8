"""The tokens of a world: who may call it over HTTP, under which roles.

A `token_added` record `{id, digest, caller, label, session, expires_ns}` and a `token_revoked` record `{id}` stand in
the unit `sys/World@1/tokens`. The token itself is in none of them: its digest is enough to know it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.stores.protocol import Store
from demiurge.values.caller import Caller
from demiurge.world.record import Record, decode_row
from demiurge.world.unit import Unit

__all__ = ["ADDED", "REVOKED", "TOKENS", "Token", "TokenChange", "token_changes", "token_digest"]

TOKENS: Final = Unit("sys/World@1", "tokens")
"""The unit that these records are in; nothing else is."""

ADDED, REVOKED = "token_added", "token_revoked"


@dataclass(frozen=True, slots=True)
class Token:
    """A token by its `id`. `digest`: SHA-256 of the token, in hexadecimal; `caller`: who calls with it; `label`: what
    it is for; `is_session`: made by the login of a browser; `expires_ns`: until when it is good, None for ever."""

    id: str
    digest: str
    caller: Caller
    label: str
    is_session: bool
    created_ns: int
    created_by: str
    expires_ns: int | None

    @property
    def is_login(self) -> bool:
        """Returns whether this is no token, but the code of a login link: it has no role, and calls nothing."""
        return not self.caller.roles

    def to_body(self) -> dict[str, Any]:
        """Returns the body of the record that adds the token."""
        return {
            "id": self.id,
            "digest": self.digest,
            "caller": self.caller.to_node(),
            "label": self.label,
            "session": self.is_session,
            "expires_ns": self.expires_ns,
        }


@dataclass(frozen=True, slots=True)
class TokenChange:
    """One record of the unit, number `seq`: a token was added, or (`added` is None) the one with this id revoked; `id`
    is None for a record of something else."""

    seq: int
    id: str | None
    added: Token | None


def token_digest(token: str) -> str:
    """Returns the digest under which a token is known."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def token_changes(store: Store, from_seq: int = 0) -> Iterator[TokenChange]:
    """Yields the changes from record number `from_seq` on, oldest first. Raises Damaged."""
    head = store.head(str(TOKENS))
    if head is None or head.next_seq <= from_seq:
        return
    for row in store.read(str(TOKENS), from_seq):
        record = decode_row(row)
        added = _token(record, record.body) if row.kind == ADDED else None
        yield TokenChange(record.unit_seq, record.body["id"] if row.kind in (ADDED, REVOKED) else None, added)


def _token(record: Record, body: Mapping[str, Any]) -> Token:
    return Token(
        body["id"],
        body["digest"],
        Caller.from_node(body["caller"]),
        body["label"],
        body["session"],
        record.stamp.time_ns,
        record.stamp.actor,
        body["expires_ns"],
    )
