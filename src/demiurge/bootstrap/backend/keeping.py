"""The calls that check, seal, copy and clean up a world, in the process that owns it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from demiurge.bootstrap.backend.calls import Frames, NewManifest
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.retention import archive_records, collect_garbage, erase_blobs
from demiurge.bootstrap.fork import make_fork
from demiurge.bootstrap.manifest import copy_definitions
from demiurge.errors import UsageError
from demiurge.stores.protocol import Store
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.values.refs import Ref
from demiurge.world.fork import Forked, fork
from demiurge.world.history.replay import Manifests
from demiurge.world.history.seal import Proof, Seal, prove, sealed
from demiurge.world.history.verify import Verified, verify
from demiurge.world.retention.archive import Archiving
from demiurge.world.retention.erasure import Erasure
from demiurge.world.retention.garbage import Garbage
from demiurge.world.tokens import ADDED, REVOKED, TOKENS, Token, TokenChange, token_changes
from demiurge.world.unit import Unit

__all__ = ["Keeping"]


class Keeping:
    """`calls.KeepCalls` of one caller."""

    def __init__(self, owner: Owner, caller: Caller) -> None:
        self._owner, self._caller = owner, caller

    async def replace_manifest(self, change: NewManifest) -> None:
        await self._owner.replace_manifest(change, self._caller)

    async def adopt(self, ref: str) -> None:
        await self._owner.adopt(ref)

    def hand_over(self, change: NewManifest | None) -> Frames:
        return self._owner.hand_over(change)

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
        host, token_id = await self._owner.host(), new_id("token", SystemEntropy())
        caller = Caller(actor, tenant, tuple(roles), "http")
        now_ns = self._owner.clock.now_ns()
        made = Token(token_id, digest, caller, label, is_session, now_ns, self._caller.actor, expires_ns)
        await host.note(TOKENS, ADDED, f"token:{token_id}", made.to_body(), caller=self._caller)
        return made

    async def revoke_token(self, token_id: str) -> None:
        host = await self._owner.host()
        await host.note(TOKENS, REVOKED, f"revoked:{token_id}", {"id": token_id}, caller=self._caller)

    def tokens(self, from_seq: int = 0) -> list[TokenChange]:
        return list(token_changes(self._owner.store, from_seq))

    async def fork(self, folder: str, at: int | None) -> Forked:
        owner = self._owner
        owner.require_runnable()

        def build(target: Store, share: Callable[[Ref], object]) -> Forked:
            copy_definitions(owner.store, target)
            return fork(
                owner.store,
                target,
                owner.manifest,
                owner.stamp,
                at=at,
                caller=self._caller,
                blobs=owner.in_force.blobs,
                share=share,
                kept_code=owner.kept_code,
            )

        beside = [owner.ledger.copy_to] if owner.ledger is not None else []
        made = await asyncio.to_thread(make_fork, owner.store, Path(folder), SystemEntropy(), build, *beside)
        await asyncio.to_thread(owner.trusted_code.copy_to, Path(folder))
        if owner.in_force.own is not None:
            adoption = replace(owner.adoption, folder=Path(folder))
            warning = await asyncio.to_thread(adoption.take, owner.in_force.own)
            owner.notices += [warning] if warning is not None else []
        return made

    async def replay(self) -> dict[str, Any]:
        unchecked = Counter[Unit]()
        numbers = {str(state.unit): state.seq for state in self._owner.reader().replay(unchecked)}
        found: dict[str, Any] = {"units": len(numbers), "records": sum(numbers.values()), "ok": True}
        return found | ({"unchecked": unchecked.total()} if unchecked else {})

    async def gc(self, keep_days: float, dry_run: bool) -> Garbage:
        owner = self._owner
        owner.require_writable(dry_run=dry_run)
        parts = owner.store, owner.manifest, owner.in_force.blobs, owner.running, owner.clock
        return await collect_garbage(*parts, keep_days, dry_run)

    async def erase(self, refs: Sequence[str], why: str, only_of: Sequence[str], dry_run: bool) -> Erasure:
        owner = self._owner
        owner.require_writable(dry_run=dry_run)
        manifests = Manifests(owner.manifest, owner.store.get_blob, owner.kept_code)
        async with owner.changing:  # one at a time: each appends to the same unit
            parts = owner.store, manifests, refs, why, owner.stamp(self._caller), owner.running, dry_run
            only, folder = frozenset(only_of), owner.adoption.folder
            found = await erase_blobs(*parts, only_of=only, folder=folder, ledger=owner.ledger)
        if not dry_run:
            owner.sessions.forget(map(Unit.parse, found.sessions))
        return found

    async def archive(self, before: int | None, keep_days: float, dry_run: bool) -> Archiving:
        self._owner.require_writable(dry_run=dry_run)
        return await archive_records(self._owner.store, self._owner.clock, before, keep_days, dry_run)

    def verify(self, seal: str | None = None, archives: Sequence[str] = ()) -> Verified:
        if archives and not self._caller.has("user"):
            raise UsageError("Only a caller with the role user may name files of this machine.", code="role_missing")
        store = self._owner.store
        with store.archives.reading_from([Path(path) for path in archives]):
            done = verify(store, seal)
        if done.problem is None and (found := self._owner.lost()):
            done = replace(done, problem=found[0])
        return done

    def seal(self, size: int | None = None) -> str:
        return str(sealed(self._owner.store, size))

    def prove(self, position: int, seal: str | None = None) -> Proof:
        return prove(self._owner.store, position, Seal.parse(seal) if seal is not None else None)
