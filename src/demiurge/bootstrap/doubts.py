"""The doubts of a world: finds them, and settles one by a person's decision.

Settling changes two files, the journal and the ledger, which no transaction spans. So it has three steps: the decision
is recorded, the ledger is changed, and a second record says so and tells the units. If the process is killed in
between, the next owner of the world carries out the recorded decision before anything else. The decision says how to
change the ledger, and a second execution changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from demiurge import faults
from demiurge.bootstrap.ledger import WorldLedger
from demiurge.bootstrap.ledger_slots import slots_of_call
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Store
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.ledger.ledger import not_in_doubt
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.result import ToolResult
from demiurge.tools.source import ToolSource
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref
from demiurge.world.doubts import DOUBTS, Doubt, Settlement, failed_effects, settlements
from demiurge.world.effect_kinds import TOOL
from demiurge.world.host import Host
from demiurge.world.unit import Unit

__all__ = ["BEGUN", "Doubts"]

BEGUN: Final = "begun"
BEGUN_MESSAGE: Final = (
    "Begun, and its end is not known: the next command that goes on with its unit, as `demiurge chat` does with a "
    "chat, finds out what became of it or has it in doubt."
)
MAX_REASON: Final = 2000
MAX_RESULT_BYTES: Final = 64 << 10
"""Longest result that a person may give: the model reads all of it."""


class _Found(NamedTuple):
    """A doubt as it stands. `slots`: where the ledger may have its entry, `row` what it has there."""

    id: str
    doubt: Doubt | None
    arguments_json: str | None
    slots: Sequence[LedgerSlot]
    row: LedgerRow | None
    settlement: Settlement | None

    @property
    def slot(self) -> LedgerSlot | None:
        if self.row is not None:
            return self.row.slot
        return self.slots[0] if self.slots else None


class Doubts:
    """The doubts of the world in `store`, whose tools are in `source`. `ledger` is None for a world without a
    folder."""

    def __init__(self, store: Store, source: ToolSource, ledger: WorldLedger | None, clock: Clock) -> None:
        self._store, self._source, self._ledger, self._clock = store, source, ledger, clock
        self._settling = asyncio.Lock()

    def begun(self, host: Host, of: Unit | None = None) -> list[dict[str, Any]]:
        """Returns the effects, of one unit or of all, that a process began and did not end before it exited, in the
        form of `found`. Their code is `begun`."""
        found = []
        for unit, intent, attempt in host.begun(of):
            params = intent.params if intent.kind == "tool.call" else {}
            named = params.get("tool"), params.get("tool_call_id"), params.get("call_ref")
            place = intent.id, str(unit), 0, attempt.started_ns, intent.kind, intent.caller
            doubt = Doubt(*place, BEGUN, BEGUN_MESSAGE, *named)
            arguments = self._arguments(doubt)
            slots = self._slots(doubt, arguments)
            one = _Found(intent.id.hex(), doubt, arguments, slots, self._row(slots), None)
            found.append(self._public(one, ()))
        return found

    def found(self, *, settled: bool = False) -> list[dict[str, Any]]:
        """Returns the effects that are in doubt, oldest first; with `settled` also those that a person has settled.

        `{id, unit, kind, tool, tool_call_id, arguments_json, code, message, actor, at_ns, ledger, equal, settled}`:
        `ledger` is the state of the entry that equal calls find (`claimed`, `in_doubt`, `done`), None where there is
        none; `equal` are the ids of calls that are settled with this one; `settled` is `{done, reason, by, at_ns,
        result_ref}` or None. An entry of the ledger that no call of the journal accounts for has no unit.
        """
        found = self._look()
        return [self._public(one, found) for one in found if settled or one.settlement is None]

    def _public(self, one: _Found, found: Sequence[_Found]) -> dict[str, Any]:
        doubt, slot = one.doubt, one.slot
        return {
            "id": one.id,
            "unit": doubt.unit if doubt is not None else None,
            "kind": doubt.kind if doubt is not None else TOOL,
            "tool": doubt.tool if doubt is not None else slot.tool_name if slot is not None else None,
            "tool_call_id": doubt.tool_call_id if doubt is not None else None,
            "arguments_json": one.arguments_json,
            "code": doubt.code if doubt is not None else "unknown_outcome",
            "message": doubt.message if doubt is not None else "The ledger has this call in doubt.",
            "actor": doubt.caller.actor if doubt is not None else None,
            "at_ns": doubt.at_ns if doubt is not None else one.row.created_ns if one.row is not None else None,
            "ledger": one.row.state.value if one.row is not None else None,
            "equal": [other.id for other in _equal(one, found)],
            "settled": one.settlement.public() if one.settlement is not None else None,
        }

    def _look(self) -> list[_Found]:
        known = {intent: settlement for settlement in settlements(self._store) for intent in settlement.intents}
        ledger = self._ledger.existing() if self._ledger is not None else None
        open_slots = set(ledger.in_doubt()) if ledger is not None else set()
        named = {slot.tool_name for slot in open_slots}
        found: list[_Found] = []
        for doubt in failed_effects(self._store, self._store.read_all(), named.__contains__, not named):
            arguments = self._arguments(doubt)
            slots = self._slots(doubt, arguments)
            row = self._row(slots)
            settlement = known.get(doubt.intent)
            if doubt.is_unknown or settlement is not None or open_slots.intersection(slots):
                found.append(_Found(doubt.intent.hex(), doubt, arguments, slots, row, settlement))
        accounted = {
            slot for one in found if one.settlement is None or not one.settlement.is_whole for slot in one.slots
        }
        for slot in sorted(open_slots - accounted):
            row = self._row([slot])
            if row is not None:
                found.append(_Found(row.effect_id.hex(), None, None, [slot], row, None))
        return found

    def _arguments(self, doubt: Doubt) -> str | None:
        """Returns the exact arguments; None if they can't be read, as when they were erased."""
        if doubt.call_ref is None:
            return None
        try:
            call = canonical_json.parse_object(self._store.get_blob(doubt.call_ref))
        except DemiurgeError:
            return None
        return str(call["arguments_json"])

    def _slots(self, doubt: Doubt, arguments: str | None) -> list[LedgerSlot]:
        """Returns the slots in which the ledger may have its entry: under the chat's session or, without one, its
        run."""
        tool = self._source.get(doubt.tool) if doubt.tool is not None else None
        if tool is None or arguments is None:
            return []
        caller = ToolPolicyContext.of(doubt.caller, run_id=doubt.unit)
        return slots_of_call(self._store, tool, arguments, caller, doubt.unit)

    def _row(self, slots: Sequence[LedgerSlot]) -> LedgerRow | None:
        ledger = self._ledger.existing() if self._ledger is not None and slots else None
        if ledger is None:
            return None
        rows = [row for slot in slots if (row := ledger.find(slot, self._clock.now_ns())) is not None]
        return min(rows, key=lambda row: row.state is EntryState.DONE, default=None)

    # -- settling -----------------------------------------------------------------------------------------------------

    async def settle(
        self, host: Host, doubt_id: str, *, done: bool, reason: str, result_json: str | None, caller: Caller
    ) -> dict[str, Any]:
        """Settles a doubt (`World.settle_doubt`). The same decision again changes nothing."""
        if type(done) is not bool:
            raise UsageError("A doubt is settled as done (true) or not done (false).", code="bad_decision")
        if not isinstance(reason, str) or not 1 <= len(reason.strip()) <= MAX_REASON:
            raise InvalidValue(f"a reason has 1 to {MAX_REASON} characters", path="reason")
        if result_json is not None and not done:
            raise UsageError("What was not done has no result: leave the result out.", code="bad_result")
        async with self._settling:
            found = await asyncio.to_thread(self._look)
            one = next((one for one in found if one.id == doubt_id), None)
            if one is None:
                raise NotFound(f"Nothing with the id {doubt_id} is in doubt; `demiurge doubts ls` lists what is.")
            result = self._result(one, result_json)
            settlement = one.settlement
            if settlement is None:
                self._check(one, done=done, result=result)
                result_ref = await host.put_blob(result) if result is not None else None
                said = {"done": done, "reason": reason, "by": caller.actor, "result_ref": result_ref}
                settlement = await self._decide(host, one, _equal(one, found), said, caller)
            elif not _same(
                settlement, done=done, reason=reason, by=caller.actor, result=result, read=self._store.get_blob
            ):
                was = "done" if settlement.body["done"] else "not done"
                why = f"This was settled as {was} by {settlement.body['by']}: {settlement.body['reason']}"
                raise Conflict(why, code="settled")
            await self._carry_out(host, settlement)
            after = await asyncio.to_thread(self.found, settled=True)
        wanted = (entry for entry in after if entry["id"] == doubt_id)
        return next(wanted, {"id": doubt_id, "settled": settlement.public()})

    async def finish(self, host: Host) -> None:
        """Carries out the decisions that an earlier process recorded, before anything else happens in the world."""
        async with self._settling:
            for settlement in await asyncio.to_thread(settlements, self._store):
                if not settlement.is_whole:
                    await self._carry_out(host, settlement)
        host.deliver_from(DOUBTS)

    def _result(self, one: _Found, result_json: str | None) -> bytes | None:
        """Returns the result in canonical JSON, checked by the tool's own type if the tool is here."""
        if result_json is None:
            return None
        try:
            value = canonical_json.parse(result_json)
            data = canonical_json.encode(value)
        except InvalidValue as error:
            raise InvalidValue(error.message, path="result", code="invalid_json") from error
        if len(data) > MAX_RESULT_BYTES:
            raise InvalidValue(f"a result has at most {MAX_RESULT_BYTES} bytes of JSON", path="result")
        tool = self._source.get(one.slot.tool_name) if one.slot is not None else None
        if tool is not None and value is not None:
            try:
                tool.load(data)
            except ToolValidationError as error:
                why = f"{tool.spec.name} gives no such result ({_faults(error.__cause__)})"
                raise InvalidValue(why, path="result") from error
        return data

    def _check(self, one: _Found, *, done: bool, result: bytes | None) -> None:
        """Raises Conflict when the ledger knows better, NotFound when its entry can't be found."""
        if one.row is None:
            tool = one.doubt.tool if one.doubt is not None else None
            ledger = self._ledger.existing() if self._ledger is not None else None
            doubted = {slot.tool_name for slot in ledger.in_doubt()} if ledger is not None else set()
            if tool in doubted and self._source.get(tool) is None:
                why = f"The tool {tool} is not here, so its entry in the ledger can't be told from others'"
                raise NotFound(f"{why}; name the module that has it with --tools.", code="tool_missing")
            return
        agrees = one.row.state is EntryState.DONE and done and result is None
        if one.row.state is not EntryState.IN_DOUBT and not agrees:
            raise not_in_doubt(one.row.state)

    async def _decide(
        self, host: Host, one: _Found, equal: Sequence[_Found], said: Mapping[str, Any], caller: Caller
    ) -> Settlement:
        """Records the decision; durable on return."""
        slot, doubts = one.slot, [other.doubt for other in (one, *equal) if other.doubt is not None]
        tool = self._source.get(slot.tool_name) if slot is not None else None
        ttl_ns = tool.idempotency.ttl_ns if tool is not None and tool.idempotency is not None else None
        body = {
            "id": one.id,
            **said,
            "calls": [doubt.call | {"unit": doubt.unit} for doubt in doubts],
            "entry": {**slot._asdict(), "ttl_ns": ttl_ns} if slot is not None else None,
        }
        first = one.doubt
        cause = {"unit": first.unit, "seq": first.seq, "index": 0} if first is not None else None
        refs = (said["result_ref"],) if said["result_ref"] is not None else ()
        await host.note(DOUBTS, "doubt_decided", f"doubt:{one.id}", body, caller=caller, cause=cause, refs=refs)
        faults.point("doubt.decided")
        return next(s for s in await asyncio.to_thread(settlements, self._store) if s.id == one.id)

    async def _carry_out(self, host: Host, settlement: Settlement) -> None:
        """Changes the ledger, then records that and tells the units."""
        if settlement.is_whole:
            return
        await asyncio.to_thread(self._change_ledger, settlement)
        faults.point("doubt.ledger_agrees")
        body = settlement.body
        told = [
            {
                "unit": call["unit"],
                "value": {name: call[name] for name in ("intent", "kind", "tool", "tool_call_id")}
                | {name: body[name] for name in ("done", "reason", "by", "result_ref")},
            }
            for call in body["calls"]
        ]
        ingress_id, said = f"doubt-settled:{settlement.id}", {"id": settlement.id, "told": told}
        await host.note(DOUBTS, "doubt_settled", ingress_id, said, caller=Caller(str(body["by"])), cause=settlement.seq)
        faults.point("doubt.settled")
        await host.at_rest(call["unit"] for call in body["calls"])

    def _change_ledger(self, settlement: Settlement) -> None:
        """Settles the entry of the ledger. A second time changes nothing: the entry is no longer in doubt, or not
        there."""
        entry, done = settlement.body["entry"], settlement.body["done"]
        ledger = self._ledger.existing() if self._ledger is not None and entry is not None else None
        if ledger is None or entry is None:
            return
        slot = LedgerSlot(entry["partition"], entry["tool_name"], entry["key"])
        row = ledger.find(slot, self._clock.now_ns())
        if row is not None and row.state is EntryState.DONE:
            return
        result = None
        if done:
            ref = settlement.body["result_ref"]
            value = canonical_json.parse(self._store.get_blob(Ref(ref))) if ref is not None else None
            result = ToolResult[Any](f"{settlement.body['by']} has found that this was done.", value)
        ttl_ns = entry["ttl_ns"]
        ttl = timedelta(microseconds=ttl_ns // 1000) if ttl_ns is not None else None
        ledger.settle_doubt(slot, done=done, result=result, ttl=ttl)


def _equal(one: _Found, found: Sequence[_Found]) -> list[_Found]:
    """Returns the other open doubts that have the same entry of the ledger."""
    return [
        other
        for other in found
        if other is not one and other.settlement is None and one.slot is not None and other.slot == one.slot
    ]


def _same(
    settlement: Settlement, *, done: bool, reason: str, by: str, result: bytes | None, read: Callable[[Ref], bytes]
) -> bool:
    body = settlement.body
    before = read(Ref(body["result_ref"])) if body["result_ref"] is not None else None
    return (body["done"], body["reason"], body["by"], before) == (done, reason, by, result)


def _faults(error: BaseException | None) -> str:
    """Returns the fields in which a value breaks its type, and how, without quoting the value."""
    if not isinstance(error, ValidationError):
        return "it breaks its declared type"
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the value'}: {each['msg']}" for each in details)
