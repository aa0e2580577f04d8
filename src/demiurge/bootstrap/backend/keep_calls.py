"""`KeepCalls`: the calls that check, seal, copy and clean up a world, and the one that gives it another manifest."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from demiurge.bootstrap.backend.call_roles import VIEWER, needs, only_reads
from demiurge.bootstrap.manifest_change import ManifestChange
from demiurge.world.fork import Forked
from demiurge.world.history.seal import Proof
from demiurge.world.history.verify import Verified
from demiurge.world.retention.archive import Archiving
from demiurge.world.retention.erasure import Erasure
from demiurge.world.retention.garbage import Garbage
from demiurge.world.tokens import Token, TokenChange

__all__ = ["Frames", "KeepCalls", "NewManifest", "Shown"]

Shown = Mapping[str, Any]
"""A frame as data: `{unit, intent, attempt, offset, end, type, ...}` and the fields of the event (`watching.frame`)."""

Frames = AsyncGenerator[Shown, None]

NewManifest: TypeAlias = Annotated[
    ManifestChange, PlainValidator(ManifestChange.from_node), PlainSerializer(ManifestChange.to_node)
]
"""A change of the manifest in force. It travels over the owner's socket as data, without code."""


class KeepCalls(Protocol):
    """The calls that check, seal, copy and clean up a world, and the one that gives it another manifest."""

    @needs("user")
    async def replace_manifest(self, change: NewManifest) -> None:
        """Puts another manifest in force; each unit takes it at its next ingress. Raises Conflict when the owner lacks
        code for it (`no_code`) or has other tools (`owned`), BadManifest, Unavailable; then nothing has changed."""
        ...

    @needs("user")
    async def adopt(self, ref: str) -> None:
        """Accepts the world's own definitions, which have the hash `ref`, for this user in this place. Raises Conflict
        (`changed`: the world has other definitions), Unavailable (the user's record can't be written)."""
        ...

    @needs("user")
    def hand_over(self, change: NewManifest | None) -> Frames:
        """Hands the world over to the process that asks over the owner's socket, because it has the code for a change
        that the owner lacks; None: because it takes the world, and the owner yields it.

        Yields `{"open": [unit]}`, the units in which something goes on, once nothing runs that cannot begin again; then
        the connection ends, because the owner leaves. Raises Conflict (`calls_running`: a call runs for too long;
        `not_needed`: the owner has the code; `kept`: the owner does not yield; `owned`: this owner hands nothing
        over)."""
        ...

    @needs("user")
    async def add_token(
        self,
        digest: str,
        actor: str,
        roles: Sequence[str],
        tenant: str,
        label: str,
        is_session: bool,
        expires_ns: int | None,
    ) -> Token:
        """Records a token by its digest (`world.tokens`); the token itself stays with whoever made it."""
        ...

    @needs("user")
    async def revoke_token(self, token_id: str) -> None: ...

    @only_reads
    @needs("user")
    def tokens(self, from_seq: int = 0) -> list[TokenChange]:
        """The changes of tokens whose records have a number from `from_seq` on, oldest first."""
        ...

    @needs("user")
    async def fork(self, folder: str, at: int | None) -> Forked:
        """Makes a fork in `folder`, an absolute path."""
        ...

    @only_reads
    @needs(*VIEWER)
    async def replay(self) -> dict[str, Any]: ...

    @needs("user")
    async def gc(self, keep_days: float, dry_run: bool) -> Garbage: ...

    @needs("user")
    async def erase(self, refs: Sequence[str], why: str, only_of: Sequence[str], dry_run: bool) -> Erasure:
        """Erases blobs and their copies. With units in `only_of`, blobs that records of other units name stay."""
        ...

    @needs("user")
    async def archive(self, before: int | None, keep_days: float, dry_run: bool) -> Archiving: ...

    @only_reads
    @needs(*VIEWER)
    def verify(self, seal: str | None = None, archives: Sequence[str] = ()) -> Verified:
        """Checks every record and blob. `archives`: absolute paths of archive files to read too; only a `user` may
        name any."""
        ...

    @only_reads
    @needs(*VIEWER)
    def seal(self, size: int | None = None) -> str: ...

    @only_reads
    @needs("agent", "chief")
    def prove(self, position: int, seal: str | None = None) -> Proof: ...
