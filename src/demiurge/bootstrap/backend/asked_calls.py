"""The calls that clients of the gateway ask for, in the process that owns the world.

A client may lose its answer: a person decides hours later, or a process between them is killed. When the same caller
asks for the same tool with the same arguments again, the call of the lost answer is answered, and nothing runs again.
The world holds what this needs. The id of a call begins with a digest of caller, tool and arguments, so the calls for
one question are neighbours; and a record `call_read` in the unit of a call says that its answer was given. The owner
compares the digest before it takes an id, and takes such ids from nowhere else (`sent_events`), so whoever read an
id in the journal can do nothing with it.

An answer is in doubt until its bytes were handed over whole (`leave` with `read`), and no equal call that may change
something is made before that: the next asker waits for the call that runs, or gets its answer. So a client that asks
again, while its earlier request is still on its way, makes nothing happen twice. The waits (`call_waits`) are forgotten
when the process of this owner ends, with all who waited; what was not read is in the journal.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple

from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend.call_waits import CallWaits
from demiurge.bootstrap.backend.waiting_calls import is_askers_own, waiting_calls
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound
from demiurge.stores.protocol import Store
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import checked_id
from demiurge.tools.model_request import Asker
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemEntropy
from demiurge.values.refs import parse_ref
from demiurge.world.host import Accepted, Host
from demiurge.world.record import decode_row
from demiurge.world.unit import Unit
from demiurge.world.watching.broadcast import Broadcast
from demiurge.world.watching.frame import frame_to_json

__all__ = ["ANSWER_KEPT_S", "PREFIX", "READ", "AskedCall", "AskedCalls", "new_call_id", "question_of"]

READ: Final = "call_read"
"""The kind, and the id, of the record which says that the answer of a call was given."""

ANSWER_KEPT_S: Final = 24 * 3600
"""How long after the end of a call its lost answer is found again, in seconds."""

GIVING_S: Final = 10.0
"""How long an asker waits for another one's client to take the answer to an equal call, in seconds. After that the
answer is in doubt, and the asker gets it too."""

PREFIX: Final = "mcp-"
STATE: Final = "demiurge/CallsState@1"
ASKED: Final = "demiurge/CallAsked@1"
_LATEST_NS: Final = (1 << 63) - 1
_LOOKED_AT: Final = 1000
"""How many earlier calls for one question are looked at, newest first."""

_LONGEST_CLIENT: Final = 500
"""The most characters of a client's name that are kept."""

_QUESTIONS: Final = 4096
"""For how many questions the lost answers are kept in memory."""


class AskedCall(NamedTuple):
    """A call that a client asks for. `call_id`: the id of a new call (`new_call_id`), or with `takes_up` that of a call
    which the caller asked for before. `asker`: a name that nobody else has, for `leave_call`. `shows`: progress is
    shown; `waits`: until the call has settled, and not only for its present state. `answers`: the questions that the
    asker answers itself (`tools.model_request.Asker`); None: what was said of the call last. `client`: the name that
    the asker's program gives itself, which nobody has checked."""

    call_id: str
    asker: str
    tool: str = ""
    arguments_json: str = ""
    takes_up: bool = False
    shows: bool = False
    waits: bool = True
    answers: Sequence[str] | None = None
    client: str = ""


def new_call_id(caller: Caller, tool: str, arguments_json: str, now_ns: int) -> str:
    """Returns an id for a new call. Equal questions of one caller have the same beginning, and the newest comes
    first."""
    newest_first = f"{_LATEST_NS - now_ns:016x}"
    return f"{question_of(caller, tool, arguments_json)}-{newest_first}-{SystemEntropy().token(8).hex()}"


def question_of(caller: Caller, tool: str, arguments_json: str) -> str:
    """Returns the beginning of the ids of all calls of `tool` with these arguments that `caller` asks for."""
    try:
        given = canonical_json.encode(canonical_json.parse(arguments_json))
    except InvalidValue:  # no JSON; the runner refuses it
        given = arguments_json.encode("utf-8", "replace")
    asked = canonical_json.encode([caller.actor, caller.tenant, tool]) + given
    return f"{PREFIX}{sha256(asked).hexdigest()[:32]}"


def _question(call_id: str) -> str:
    return call_id.rsplit("-", 2)[0]


def _is_id_for(asked: AskedCall, caller: Caller) -> bool:
    parts = asked.call_id.split("-")  # mcp, the question, the time, a random number
    is_whole = len(parts) == 4 and [len(part) for part in parts[1:]] == [32, 16, 16]
    return is_whole and _question(asked.call_id) == question_of(caller, asked.tool, asked.arguments_json)


class AskedCalls:
    """The calls of the gateway's clients in the world of `store`. Use it from one event loop."""

    def __init__(self, store: Store, broadcast: Broadcast) -> None:
        self._store, self._broadcast = store, broadcast
        self._unread: OrderedDict[str, list[str]] = OrderedDict()
        """For each question the calls whose answer was not given, oldest first."""
        self._waits = CallWaits()
        self._askers: OrderedDict[str, Asker] = OrderedDict()
        """The last asker of each of the newest calls, also after it has left: the next leg of a call may begin before
        its asker is back."""

    async def ask(self, host: Host, asked: AskedCall, caller: Caller, now_ns: int) -> AsyncGenerator[dict[str, Any]]:
        """Yields `{type: "call", call_id, earlier}`, then the progress of the call, then `{type: "outcome", ...}`, and
        stays until the asker has left (`leave`) or the generator is closed. If the world is closed before the call has
        settled, there is no outcome: the next owner has it. Raises NotFound (`no_call`), InvalidValue (no tool id, or
        an id that is not of this caller, tool and arguments)."""
        if not asked.takes_up and not _is_id_for(asked, caller):
            raise InvalidValue("is not an id of this caller, tool and arguments (`new_call_id`)", path="call_id")
        call_id = asked.call_id if asked.takes_up else await self._chosen(host, asked, caller, now_ns)
        unit = Unit(CALLS, call_id)
        earlier = host.state(unit).cell is not None
        if earlier:
            self._require_own(unit, caller)
        elif asked.takes_up:
            raise NotFound("There is no such call of this caller.", code="no_call")
        known = self._askers.pop(call_id, Asker())
        self._askers[call_id] = Asker(frozenset(asked.answers)) if asked.answers is not None else known
        if len(self._askers) > _QUESTIONS:
            self._askers.popitem(last=False)
        left = self._waits.begin(call_id, asked.asker, only_looks=not asked.waits)
        try:
            if not earlier:
                await self._submit(host, asked._replace(call_id=call_id), caller)
            yield {"type": "call", "call_id": call_id, "earlier": earlier or call_id != asked.call_id}
            if asked.shows:
                async with aclosing(self._shown(host, unit)) as frames:
                    async for shown in frames:
                        yield shown
            elif asked.waits:
                await host.settle(unit)
            outcome = self._outcome(host, unit)
            if asked.waits and outcome["status"] == "open":
                return
            if outcome["status"] == "ended":
                self._waits.show(call_id, asked.asker)
            yield outcome
            await left.wait()
        finally:
            self._waits.end(call_id, asked.asker)

    async def leave(self, host: Host, call_id: str, asker: str, caller: Caller, *, read: bool) -> bool:
        """Ends the wait of an asker, and returns whether somebody else waits for the call. With `read` the client of
        the asker was given the answer: unless somebody asked later, the next who asks makes a new call. Raises
        NotFound (`no_call`)."""
        try:
            if read:
                unit = Unit(CALLS, call_id)
                self._require_own(unit, caller)
                if self._waits.is_last(call_id, asker):
                    await host.note(unit, READ, READ, {}, caller=caller)
                    kept = self._unread.get(_question(call_id), [])
                    kept[:] = [each for each in kept if each != call_id]
        finally:
            self._waits.end(call_id, asker)
        return self._waits.has(call_id)

    def require_first(self, accepted: Accepted, caller: Caller) -> None:
        """Raises Conflict (`exists`) for an event that asks for a call under an id for which another caller asked
        first: an equal call of theirs must not be answered as this caller's."""
        unit = Unit.parse(accepted.unit)
        if unit.module == CALLS and not self._is_own(unit, caller):
            raise Conflict(f"Another caller has a call {unit.key}: choose another id.", code="exists")

    def asker_of(self, unit: Unit) -> Asker:
        """Returns who asked for the call of a unit; an asker that answers nothing, if nobody is known."""
        if unit.module != CALLS or not unit.key.startswith(PREFIX):
            return Asker()
        return replace(self._askers.get(unit.key, Asker()), verbatim=True)

    def own_request(self, host: Host, store: Store, call_id: str, caller: Caller, now_ns: int) -> dict[str, Any] | None:
        """Returns the waiting call, as `waiting_calls` does, if all that it waits for is for its asker to answer: its
        model and its files. Raises NotFound (`no_call`)."""
        unit = Unit(CALLS, call_id)
        self._require_own(unit, caller)
        waiting = [call for call in waiting_calls(host, store, unit, now_ns) if is_askers_own(call["input"])]
        return waiting[0] if waiting else None

    async def _submit(self, host: Host, asked: AskedCall, caller: Caller) -> None:
        """Submits the event of a call. The call is unread from before the first wait on: if the asker goes meanwhile,
        nobody knows whether the event will be accepted, and the next asker takes up the same id."""
        name = checked_id(asked.tool)
        unread = self._lost_answers(_question(asked.call_id))
        if asked.call_id not in unread:
            unread.append(asked.call_id)
        proposed = {"id": asked.call_id, "name": name, "arguments_json": asked.arguments_json}
        if asked.client:
            proposed["client"] = asked.client[:_LONGEST_CLIENT].encode(errors="replace").decode()
        ref = await host.hold_blob(canonical_json.encode(proposed))
        event = {"call_id": asked.call_id, "tool": name, "call_ref": ref}
        await host.submit(ASKED, event, caller=caller)

    async def _chosen(self, host: Host, asked: AskedCall, caller: Caller, now_ns: int) -> str:
        """Returns the call that answers the asker (`_earlier`). Waits while another asker hands the answer of that call
        to its client."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + GIVING_S
        while True:
            call_id = self._earlier(host, asked, caller, now_ns)
            giving = self._waits.giving(call_id)
            if giving is None or loop.time() >= ends:
                return call_id
            with suppress(TimeoutError):
                async with asyncio.timeout_at(ends):
                    await giving.wait()

    def _earlier(self, host: Host, asked: AskedCall, caller: Caller, now_ns: int) -> str:
        """Returns the call whose answer was not given to this caller yet, one that has ended if there is one; the new
        call if there is none. A call that only reads, and for which somebody still waits, is left to that asker."""
        spec = host.manifest.toolset.get(asked.tool)
        only_reads = spec is not None and spec.effect is ToolEffect.READ_ONLY
        found = [
            call_id
            for call_id in self._lost_answers(_question(asked.call_id))
            if not (only_reads and self._waits.has(call_id))
            and self._is_kept(host, call_id, now_ns - ANSWER_KEPT_S * 10**9)
            and self._asker_of_first(Unit(CALLS, call_id)) in (None, (caller.actor, caller.tenant))
        ]
        return next((each for each in found if self._has_ended(host, each)), found[0] if found else asked.call_id)

    def _is_kept(self, host: Host, call_id: str, since_ns: int) -> bool:
        """Returns whether a call has not ended, or not before `since_ns`."""
        if not self._has_ended(host, call_id):
            return True
        unit = Unit(CALLS, call_id)
        last = decode_row(next(self._store.read(str(unit), host.state(unit).seq - 1)))
        return last.stamp.time_ns > since_ns

    def _has_ended(self, host: Host, call_id: str) -> bool:
        try:
            cell = _cell(host, Unit(CALLS, call_id))
        except DemiurgeError:  # the asker is told so
            return True
        return cell is not None and cell["outcome"] is not None

    def _lost_answers(self, question: str) -> list[str]:
        known = self._unread.get(question)
        if known is None:
            known = self._unread[question] = self._unread_of(question)
            if len(self._unread) > _QUESTIONS:
                self._unread.popitem(last=False)
        self._unread.move_to_end(question)
        return known

    def _unread_of(self, question: str) -> list[str]:
        heads = islice(self._store.heads(f"{CALLS}/{question}-"), _LOOKED_AT)
        unread = [head.unit for head in heads if self._store.find_ingress(head.unit, READ) is None]
        return [Unit.parse(name).key for name in reversed(unread)]

    def _require_own(self, unit: Unit, caller: Caller) -> None:
        """Raises NotFound for a call of another caller, as for one that does not exist."""
        if not self._is_own(unit, caller):
            raise NotFound("There is no such call of this caller.", code="no_call")

    def _is_own(self, unit: Unit, caller: Caller) -> bool:
        return self._asker_of_first(unit) == (caller.actor, caller.tenant)

    def _asker_of_first(self, unit: Unit) -> tuple[str, str] | None:
        """Returns the actor and the tenant that asked for a call; None for a call that is not written yet."""
        first = next((decode_row(row) for row in self._store.read(str(unit), 0, 1)), None)
        return (first.stamp.caller.actor, first.stamp.caller.tenant) if first is not None else None

    async def _shown(self, host: Host, unit: Unit) -> AsyncGenerator[dict[str, Any]]:
        """Yields the progress and the log of the call until it has settled."""
        with self._broadcast.watch(unit) as watcher:
            settling = asyncio.create_task(host.settle(unit))
            settling.add_done_callback(lambda _: watcher.end())
            try:
                async for frame in watcher:
                    shown = frame_to_json(frame)
                    if shown["type"] == "tool_log":
                        yield {name: shown[name] for name in ("type", "level", "text", "logger")}
                    if shown["type"] == "tool_progress":
                        yield {name: shown[name] for name in ("type", "done", "total", "message")}
                await settling
            finally:
                settling.cancel()
                await asyncio.gather(settling, return_exceptions=True)

    def _outcome(self, host: Host, unit: Unit) -> dict[str, Any]:
        cell = _cell(host, unit) or {}
        outcome, tool = cell.get("outcome"), cell.get("tool", "")
        if outcome is None:
            waiting = bool(host.state(unit).waiting)
            return {"type": "outcome", "status": "waiting" if waiting else "open", "tool": tool}
        return {
            "type": "outcome",
            "status": "ended",
            "tool": tool,
            "ok": outcome["ok"],
            "error_code": outcome["error_code"],
            "message": outcome["message"],
            "result": self._blob(host, outcome["result_ref"]),
            "view": self._blob(host, outcome["view_ref"]),
        }

    def _blob(self, host: Host, ref: Any) -> bytes | None:
        """Returns the bytes of a blob; None for no ref, and for a blob that was erased."""
        if ref is None:
            return None
        try:
            return host.get_blob(parse_ref(str(ref)))
        except NotFound as error:
            if error.code != "erased":
                raise
            return None


def _cell(host: Host, unit: Unit) -> dict[str, Any] | None:
    """Returns the state of a call as JSON-ready data."""
    cell = host.state(unit).cell
    if cell is None:
        return None
    view: dict[str, Any] = host.manifest.schemas.validator(STATE).part_to_json(cell, "all")
    return view
