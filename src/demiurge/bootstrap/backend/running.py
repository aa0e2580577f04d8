"""The calls that let something happen, in the process that owns the world."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend import mcp_items, mcp_servers, review, standing_rules, webhooks, world_connections
from demiurge.bootstrap.backend.asked_calls import AskedCall
from demiurge.bootstrap.backend.calls import Frames, Shown
from demiurge.bootstrap.backend.changed_call import changed_call
from demiurge.bootstrap.backend.chiefs import with_chiefs
from demiurge.bootstrap.backend.given_answer import given_answer
from demiurge.bootstrap.backend.layer_sync import ExportedTools, LayerStatus
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.sent_events import require_readable_blobs, require_sender, sent_event
from demiurge.bootstrap.backend.waiting_calls import require_readable
from demiurge.bootstrap.backend.webhooks import AddedWebhook, WebhookTest
from demiurge.errors import Conflict, NotFound, UsageError
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.authority.approval import edited
from demiurge.world.host import Accepted
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.watching.broadcast import Watcher
from demiurge.world.watching.frame import Closed, frame_to_json, places_of

__all__ = ["Running"]


class Running:
    """`calls.RunCalls` of one caller."""

    def __init__(self, owner: Owner, caller: Caller) -> None:
        self._owner, self._caller = owner, caller
        self._sight = owner.visibility(caller)

    async def submit(self, schema: str, value: Any, key: str | None, idempotency_key: str | None) -> Accepted:
        owner, host = self._owner, await self._owner.host()
        value = with_chiefs(schema, value, owner.store, host.manifest.settings, owner.clock.now_ns())
        event = sent_event(host.manifest, schema, value)
        if event is not None:
            require_sender(event, self._caller)
            owner.prompt_catalog.require_own(host, owner.store, event)
            if not self._caller.has("user"):
                require_readable_blobs(event.refs, self._may_name, owner.store.get_blob)
        accepted = await host.submit(schema, value, key=key, idempotency_key=idempotency_key, caller=self._caller)
        owner.asked_calls.require_first(accepted, self._caller)
        return accepted

    def _may_name(self, ref: Ref) -> bool:
        return self._owner.own_blobs.holds(self._caller, ref) or self._sight.may_read(ref)

    async def settle(self, unit: str | None) -> None:
        await (await self._owner.host()).settle(_unit(unit))

    async def settling(self, unit: str | None, after: Sequence[Shown] = ()) -> Frames:
        with self._owner.broadcast.watch(_unit(unit), places_of(after)) as watcher:
            settling = asyncio.create_task(self.settle(unit))
            settling.add_done_callback(lambda _: watcher.end())
            try:
                async for shown in self._shown(watcher):
                    yield shown
                await settling
            finally:
                settling.cancel()
                await asyncio.gather(settling, return_exceptions=True)

    async def ask_call(
        self,
        call_id: str,
        asker: str,
        tool: str,
        arguments_json: str,
        takes_up: bool = False,
        shows: bool = False,
        waits: bool = True,
        answers: Sequence[str] | None = None,
        client: str = "",
    ) -> Frames:
        asked = AskedCall(call_id, asker, tool, arguments_json, takes_up, shows, waits, answers, client)
        owner, host = self._owner, await self._owner.host()
        async with aclosing(owner.asked_calls.ask(host, asked, self._caller, owner.clock.now_ns())) as frames:
            async for shown in frames:
                yield shown

    async def leave_call(self, call_id: str, asker: str, read: bool) -> bool:
        return await self._owner.asked_calls.leave(await self._owner.host(), call_id, asker, self._caller, read=read)

    async def complete_argument(self, tool: str, argument: str, value: str, given: dict[str, str]) -> dict[str, Any]:
        return await mcp_items.complete(self._owner, tool, argument, value, given, self._caller)

    async def follow_resource(self, tool: str, uri: str) -> Frames:
        async with aclosing(mcp_items.updates(self._owner, tool, uri, self._caller)) as updates:
            async for kind in updates:
                yield {"type": kind}

    async def own_request(self, call_id: str) -> dict[str, Any] | None:
        owner, host = self._owner, await self._owner.host()
        return owner.asked_calls.own_request(host, owner.store, call_id, self._caller, owner.clock.now_ns())

    async def answer_own(self, approval_id: str, given: dict[str, Any]) -> None:
        intent, host = _intent_id(approval_id), await self._owner.host()
        unit, _ = host.intent(intent)
        waiting = await self.own_request(unit.key) if unit is not None and unit.module == CALLS else None
        if waiting is None or waiting["id"] != approval_id:
            raise NotFound("No question with this id waits for its own asker.", code="no_question")
        answer = await host.put_blob(given_answer(host, intent, None, given))
        await host.decisions.take(intent, "answer", caller=self._caller, answer_ref=answer)

    async def watch(self, unit: str | None, after: Sequence[Shown] = ()) -> Frames:
        with self._owner.broadcast.watch(_unit(unit), places_of(after)) as watcher:
            async for shown in self._shown(watcher):
                yield shown

    async def _shown(self, watcher: Watcher) -> Frames:
        """Yields the frames of a watcher as this caller may see them."""
        async for frame in watcher:
            given, view = frame_to_json(frame), self._sight.frame
            reads = self._sight.sees_records and isinstance(frame.event, Closed)  # blobs, for which nobody else waits
            shown = await asyncio.to_thread(view, given) if reads else view(given)
            if shown is not None:
                yield shown

    async def decide(self, approval_id: str, approve: bool, reason: str, arguments_json: str | None = None) -> None:
        if type(approve) is not bool or not isinstance(reason, str):
            raise UsageError("A decision is true or false, and its reason is text.", code="bad_decision")
        if arguments_json is not None and not approve:
            raise UsageError("A rejected call runs with no arguments: leave them out.", code="bad_decision")
        intent = _intent_id(approval_id)
        host, owner = await self._owner.host(), self._owner
        asked = require_readable(host, owner.store, intent, owner.clock.now_ns(), approve=approve)
        host.decisions.require_approver(intent, self._caller)
        changed = changed_call(host, intent, arguments_json) if arguments_json is not None else None
        call_ref = await host.put_blob(changed) if changed is not None else None
        if approve:
            if asked is not None and call_ref is not None and changed is not None:
                asked = edited(host.manifest, asked, call_ref, changed)
            await self._note_approved(asked)
        await host.decide(intent, approve=approve, reason=reason, caller=self._caller, call_ref=call_ref)

    async def answer(self, approval_id: str, text: str | None, given: dict[str, Any] | None = None) -> None:
        intent = _intent_id(approval_id)
        host, owner = await self._owner.host(), self._owner
        require_readable(host, owner.store, intent, owner.clock.now_ns(), approve=True)
        host.decisions.require_approver(intent, self._caller)
        await host.answer(intent, await host.put_blob(given_answer(host, intent, text, given)), self._caller)

    async def _note_approved(self, asked: OpenIntent | None) -> None:
        """Records the approval in the user's config folder before it is journaled. This happens also if the call is
        approved already, since the first answer may not have reached the user."""
        owner = self._owner
        warning = await asyncio.to_thread(owner.local_approvals.add, asked) if asked is not None else None
        if warning is not None and warning not in owner.notices:
            owner.notices.append(warning)

    async def allow(
        self, approval_id: str, pattern_json: str | None, count: int, lasts_s: float, reason: str
    ) -> dict[str, Any]:
        return await standing_rules.allow(self._owner, approval_id, pattern_json, count, lasts_s, reason, self._caller)

    async def forget_rule(self, rule: str) -> None:
        await standing_rules.forget(self._owner, rule, self._caller)

    async def settle_doubt(self, doubt_id: str, done: bool, reason: str, result_json: str | None) -> dict[str, Any]:
        host = await self._owner.host()
        return await self._owner.doubts.settle(
            host, doubt_id, done=done, reason=reason, result_json=result_json, caller=self._caller
        )

    async def cancel(self, unit: str, reason: str) -> None:
        host = await self._owner.host()
        await host.cancel(Unit.parse(unit), reason=reason, caller=self._caller)

    async def add_connection(self, connection_id: str, terms: dict[str, Any]) -> None:
        await world_connections.add(await self._owner.host(), connection_id, terms, self._caller)

    async def revoke_connection(self, connection_id: str, reason: str) -> None:
        await world_connections.revoke(await self._owner.host(), connection_id, reason, self._caller)

    async def choose_connection(self, unit: str, tool: str | None, connection_id: str | None) -> None:
        await world_connections.choose(await self._owner.host(), unit, tool, connection_id, self._caller)

    async def add_webhook(self, url: str, name: str) -> AddedWebhook:
        owner = self._owner
        host = await owner.host()
        parts = host, owner.store, owner.webhook_keys, url, name, self._caller, owner.clock
        async with owner.changing:  # the limit on their number holds
            made = await webhooks.add(*parts)
        await owner.follow_webhooks()
        return made

    async def remove_webhook(self, webhook_id: str) -> None:
        await webhooks.remove(await self._owner.host(), self._owner.webhook_keys, webhook_id, self._caller)

    async def rotate_webhook(self, webhook_id: str) -> AddedWebhook:
        host = await self._owner.host()
        async with self._owner.changing:
            return await webhooks.rotate(host, self._owner.webhook_keys, webhook_id, self._caller)

    async def test_webhook(self, webhook_id: str) -> WebhookTest:
        tested = await webhooks.test(await self._owner.host(), webhook_id, self._caller, self._owner.clock)
        await self._owner.follow_webhooks()
        return tested

    async def add_mcp_server(self, settings: dict[str, Any]) -> None:
        await mcp_servers.add(self._owner, settings, self._caller)

    async def remove_mcp_server(self, name: str) -> None:
        await mcp_servers.remove(self._owner, name, self._caller)

    async def refresh_mcp_server(self, name: str) -> None:
        await mcp_servers.refresh(self._owner, name, self._caller)

    async def trust_mcp_tools(
        self,
        name: str,
        tools: Sequence[str] | None,
        rule: str,
        effect: str | None,
        public: Sequence[str],
        pins: dict[str, str],
    ) -> None:
        await mcp_servers.trust(self._owner, name, tools, rule, effect, public, pins, self._caller)

    async def untrust_mcp_tools(self, name: str, tools: Sequence[str] | None) -> None:
        await mcp_servers.untrust(self._owner, name, tools, self._caller)

    async def adopt_mcp_server(self, name: str, digest: str) -> None:
        await mcp_servers.adopt(self._owner, name, digest, self._caller)

    async def submit_review(self, schema: str, value: dict[str, Any], text: str | None = None) -> None:
        owner, host = self._owner, await self._owner.host()
        body = review.body_of(schema, value, text)
        given = {**value, "body_ref": self.put_blob(body)} if body is not None else value
        given = with_chiefs(schema, given, owner.store, host.manifest.settings, owner.clock.now_ns())
        await review.submit(host, schema, given, self._caller)

    async def sync_tool_files(self) -> list[LayerStatus]:
        host, owner = await self._owner.host(), self._owner
        async with owner.changing:  # each change is proposed once
            return await owner.tool_files(host).sync(self._caller)

    async def export_tool_files(self) -> ExportedTools:
        host, owner = await self._owner.host(), self._owner
        async with owner.changing:
            return await owner.tool_files(host).export(self._caller)

    async def prompt_catalog(self, has_reader: bool = False) -> Ref | None:
        owner = self._owner
        ref = owner.prompt_catalog.stored(await owner.host(), owner.store, has_reader=has_reader)
        if ref is not None:
            owner.own_blobs.note(self._caller, ref)
        return ref

    def put_blob(self, data: bytes, force: bool = False) -> Ref:
        ref, store = ref_of(data), self._owner.store
        if not force and ref in store.erasures() and not store.has_blob(ref):
            raise Conflict(f"Blob {ref} was erased: with --force it is there again.", code="erased")
        stored = store.put_blob(data)
        self._owner.own_blobs.note(self._caller, stored)
        return stored


def _intent_id(approval_id: str) -> bytes:
    try:
        return bytes.fromhex(approval_id)
    except ValueError:
        raise NotFound(f"There is no request for approval {approval_id!r}.") from None


def _unit(name: str | None) -> Unit | None:
    return Unit.parse(name) if name is not None else None
