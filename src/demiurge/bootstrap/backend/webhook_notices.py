"""`WebhookNotices`: tells the webhooks of a world which calls wait for a person, in the process that owns the world.

What a webhook was told is in its unit. So nothing is lost when the process is killed: at the next start, and whenever
other calls wait than before, the calls that wait are compared with the notices of each webhook. A world without
webhooks compares nothing.

A notice holds no arguments of the call: they may be secret, and a notice goes to systems that were not made for secrets
(chat rooms, phones). Whoever decides reads them in the world.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from demiurge import faults
from demiurge.apps.demiurge import CHAT
from demiurge.errors import DemiurgeError
from demiurge.stores.protocol import Store
from demiurge.tools.taint_words import taint_reason
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock
from demiurge.visible_text import visible_name
from demiurge.world.authority.admission import tool_effect
from demiurge.world.authority.approval import asked_ns
from demiurge.world.effects.legs import questions_of
from demiurge.world.host import Host
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.webhooks import WEBHOOK, WEBHOOK_NOTIFY, WEBHOOK_WITHDRAW, is_wanted

__all__ = ["HOST", "WebhookNotices", "webhook_cells"]

log = logging.getLogger("demiurge.world")

HOST: Final = Caller("host", roles=("user",), transport="host")
"""The caller of what the host itself records about webhooks."""

RETRY_S: Final = 5.0
"""How long to wait before comparing again if the store refused a record, in seconds."""

GRACE_S: Final = 5.0
"""How long closing waits for attempts that are under way, in seconds."""


class WebhookNotices:
    """The notices of one host. `page_url` is the address of the world's pages, None if nobody serves them."""

    def __init__(self, host: Host, store: Store, clock: Clock, page_url: str | None) -> None:
        self._host, self._store, self._clock, self._page_url = host, store, clock, page_url
        self._is_due, self._follows = asyncio.Event(), False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to follow the calls that wait, if the world has a webhook; returns once each webhook was told of
        them."""
        if not self._follows and next(webhook_cells(self._host, self._store), None) is not None:
            self._follows = True
            self._host.watch_waiting(self._is_due.set)
            is_whole = await self._compare()
            self._task = asyncio.create_task(self._follow(again=not is_whole))

    def wake(self) -> None:
        """Has the webhooks compared with the calls that wait, soon."""
        self._is_due.set()

    async def close(self) -> None:
        """Stops, after attempts that are under way had a moment to end: a process may live only as long as one command,
        and the next one may come much later."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._compare()
        with suppress(TimeoutError, DemiurgeError):
            async with asyncio.timeout(GRACE_S):
                for webhook, _ in list(webhook_cells(self._host, self._store)):
                    await self._host.settle(webhook)

    async def _follow(self, *, again: bool) -> None:
        while True:
            if again:
                await asyncio.sleep(RETRY_S)
            else:
                await self._is_due.wait()
            self._is_due.clear()
            again = not await self._compare()

    async def _compare(self) -> bool:
        """Tells each webhook what it does not know yet. Returns False if that did not succeed for each of them."""
        is_whole = True
        try:
            waiting, unreadable = self._host.waiting()
            calls = {intent.id.hex(): (unit, intent) for unit, intent in waiting if not self._is_askers(intent)}
            webhooks = list(webhook_cells(self._host, self._store))
        except DemiurgeError as error:
            log.warning("the webhooks were not told what waits: %s", error.message)
            return False
        for webhook, cell in webhooks:
            try:
                await self._tell(webhook, cell, calls, withdraws=not unreadable)
            except Exception as error:  # noqa: BLE001 - one webhook's failure must not stop the others
                why = error.message if isinstance(error, DemiurgeError) else type(error).__name__
                log.warning("%s was not told what waits: %s", webhook, why)
                is_whole = False
        return is_whole

    def _is_askers(self, intent: OpenIntent) -> bool:
        """Returns whether a call asks the program that asked for it, and no person."""
        if intent.leg is None:
            return False
        with suppress(DemiurgeError):
            return all(
                question.request is not None for question in questions_of(self._host.get_blob(intent.leg["asks"]))
            )
        return False

    async def _tell(
        self,
        webhook: Unit,
        cell: Mapping[str, Any],
        calls: Mapping[str, tuple[Unit, OpenIntent]],
        *,
        withdraws: bool,
    ) -> None:
        known = {notice["call"]: notice_id for notice_id, notice in cell["notices"].items() if notice["call"]}
        over = [notice_id for call, notice_id in known.items() if call not in calls] if withdraws else []
        if over:
            value = {"webhook_id": webhook.key, "notices": over}
            await self._host.submit(WEBHOOK_WITHDRAW, value, caller=HOST)
            faults.point("webhook.withdrawn")
        await self._host.take_up(webhook, lambda intent: is_wanted(intent, self._host.state(webhook).cell))
        for call, (unit, intent) in calls.items() if cell["stopped"] is None else ():
            if call not in known:
                faults.point("webhook.not_told")
                await self._notify(webhook, cell, call, unit, intent)

    async def _notify(self, webhook: Unit, cell: Mapping[str, Any], call: str, unit: Unit, intent: OpenIntent) -> None:
        notice_id = f"msg_{sha256(f'{webhook.key}/{call}'.encode()).hexdigest()[:32]}"
        body = self._body(call, unit, intent)
        value = {"webhook_id": webhook.key, "notice": notice_id, "call": call, "body": body}
        key = f"{call}/{cell['resumed']}"
        await self._host.submit(WEBHOOK_NOTIFY, value, caller=HOST, idempotency_key=key)

    def _body(self, call: str, unit: Unit, intent: OpenIntent) -> str:
        assert intent.approval is not None
        tool, expires_ns, since_ns = (
            intent.approval["tool"],
            intent.approval["expires_ns"],
            self._since_ns(unit, intent),
        )
        chat = unit.key if unit.module == CHAT else None
        where = f" in the chat {visible_name(chat)}" if chat is not None else ""
        data = {
            "id": call,
            "unit": str(unit),
            "chat": chat,
            "tool": tool,
            "tool_call_id": intent.approval["tool_call_id"],
            "effect": str(tool_effect(self._host.manifest, tool)),
            "since": _when(since_ns),
            "expires": _when(expires_ns) if expires_ns is not None else None,
            "link": f"{self._page_url}/approvals" if self._page_url is not None else None,
        }
        tainted = intent.approval.get("tainted")
        data |= {"tainted": list(tainted)} if tainted else {}
        because = f" It is asked about because {taint_reason(tainted)}." if tainted else ""
        if intent.is_question:
            return notice_body("question.waiting", f"A question{where} waits for an answer.", data, since_ns)
        return notice_body("call.waiting", f"A call of {tool}{where} waits for a decision.{because}", data, since_ns)

    def _since_ns(self, unit: Unit, intent: OpenIntent) -> int:
        """Returns when a person was first asked; now if the record that says so cannot be read."""
        if intent.approval is not None and not intent.is_question:
            return asked_ns(intent.approval)
        with suppress(DemiurgeError, StopIteration):
            return next(self._host.records(unit, intent.seq)).stamp.time_ns
        return self._clock.now_ns()


def notice_body(kind: str, text: str, data: Mapping[str, Any], time_ns: int) -> str:
    """Returns the body of a notice: JSON of `{type, timestamp, text, data}`. `text` is one sentence for a person."""
    return json.dumps({"type": kind, "timestamp": _when(time_ns), "text": text, "data": dict(data)})


def webhook_cells(host: Host, store: Store) -> Iterator[tuple[Unit, Mapping[str, Any]]]:
    """Yields the units and cells of the webhooks that were not removed. A unit that cannot be read is left out."""
    for head in list(store.heads(f"{WEBHOOK}/")):
        unit = Unit.parse(head.unit)
        try:
            cell = host.state(unit).cell
        except DemiurgeError as error:
            log.warning("%s is left alone: %s", unit, error.message)
        else:
            if cell is not None:
                yield unit, cell


def _when(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
