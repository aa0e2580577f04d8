"""The calls that a gateway's clients ask for: their ids, whole answers, and which call answers a client that asks
again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from demiurge import Redaction, ToolContext, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend import asked_calls
from demiurge.bootstrap.backend.asked_calls import AskedCalls, new_call_id, question_of
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.errors import InvalidValue, NotFound, Unavailable
from demiurge.testing import FrozenClock
from demiurge.tools.input_required import InputRequired, Question
from demiurge.tools.model_request import Asker
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.unit import Unit

AGENT, OTHER = (Caller(name, roles=("agent",), transport="http") for name in ("agent:a", "agent:b"))
ROME = '{"city":"Rome"}'
NUMBERS = count()
ROOTS = {"method": "roots/list"}


@dataclass
class Desk:
    """A world whose tools note their runs; `go_on` lets `work` end."""

    clock: FrozenClock
    runs: list[str] = field(default_factory=list)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def open(self, folder: Path) -> AsyncGenerator[World]:
        async with World.open(folder, self.tools(), POLICY, clock=self.clock) as world:
            yield world

    def tools(self) -> list[Any]:
        @tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
        def send(city: str) -> str:
            """Send a parcel."""
            self.runs.append(city)
            return f"sent to {city}"

        @tool(effect=ToolEffect.READ_ONLY)
        def look(city: str) -> str:
            """Look at a city."""
            return f"saw {city}"

        @tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("sum"))
        def add(a: int, b: int) -> ToolResult[dict[str, int]]:
            """Add two numbers."""
            return ToolResult("added", {"sum": a + b, "first": a})

        @tool(effect=ToolEffect.STATE_CHANGE)
        async def work(*, context: ToolContext) -> str:
            """Work until told otherwise."""
            context.log("warning", "slowly", "desk")
            context.progress(1, 2, "half")
            self.began.set()
            await self.go_on.wait()
            return "worked"

        @tool(effect=ToolEffect.STATE_CHANGE)
        def ask(of: str, *, context: ToolContext) -> str | InputRequired:
            """Ask the program, a person, or both."""
            if context.resumed is not None:
                return "asked"
            own, person = Question("own", "Where?", request=ROOTS), Question("person", "Why?")
            return InputRequired({"program": (own,), "person": (person,), "both": (own, person)}[of])

        return [send, look, add, work, ask]


POLICY = ToolPolicy(("send", "look", "add", "work", "ask"), require_approval_for_tools=("send", "look"))


@pytest.fixture
def desk() -> Desk:
    return Desk(FrozenClock())


async def asked(
    world: World, call_id: str, name: str = "", arguments: str = "", *, read: bool = True, **more: Any
) -> list[dict[str, Any]]:
    """Asks for a call and leaves it once its outcome came; returns all that was yielded."""
    run, asker = world.acting_as(AGENT).backend.run, f"asker {next(NUMBERS)}"
    shown: list[dict[str, Any]] = []
    async for frame in run.ask_call(call_id, asker, name, arguments, **more):
        shown.append(dict(frame))
        if frame["type"] == "outcome":
            await run.leave_call(shown[0]["call_id"], asker, read)
    return shown


async def anew(world: World, name: str, arguments: str, **more: Any) -> list[dict[str, Any]]:
    """Asks for a call under a new id, as a client does that knows of no earlier one."""
    now_ns = world.opening.options.clock.now_ns()
    return await asked(world, new_call_id(AGENT, name, arguments, now_ns), name, arguments, **more)


def calls_of(world: World) -> AskedCalls:
    assert isinstance(world.backend, Embedded)
    return world.backend.state.asked_calls


async def approve(world: World, call_id: str) -> None:
    [waiting] = await world.approvals(Unit(CALLS, call_id))
    await world.decide(waiting["id"], approve=True)
    await world.settle()


WAITING = {"type": "outcome", "status": "waiting", "tool": "send"}


def test_an_id_begins_with_a_digest_of_the_question_that_no_version_changes() -> None:
    """The ids are in journals: a world has to find the calls that an older version made."""
    assert question_of(AGENT, "send", ROME) == "mcp-392096a0fe3be232c26cdf57d381b276"
    assert question_of(AGENT, "send", ' { "city" : "Rome" }') == "mcp-392096a0fe3be232c26cdf57d381b276"
    assert question_of(AGENT, "note", ROME) == "mcp-bfb2902687fa05e855f92ea407877eaa"
    assert question_of(OTHER, "send", ROME) == "mcp-039a2054939d219a0fca139d514349ef"
    assert question_of(Caller("agent:a", "t"), "send", ROME) == "mcp-1f13936eca8178b5427a3023598b6826"
    assert question_of(AGENT, "send", 'no "\ud800') == "mcp-27e5617937b9dd4d5b9b61603d743c83"


def test_the_ids_of_one_question_are_sorted_newest_first_and_never_the_same() -> None:
    first, again, later = (new_call_id(AGENT, "send", ROME, now_ns) for now_ns in (0, 0, 1))
    assert re.fullmatch(r"mcp-392096a0fe3be232c26cdf57d381b276-7fffffffffffffff-[0-9a-f]{16}", first)
    assert re.fullmatch(r"mcp-392096a0fe3be232c26cdf57d381b276-7ffffffffffffffe-[0-9a-f]{16}", later)
    assert first != again


async def test_only_an_id_of_the_whole_form_is_taken(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        question = question_of(AGENT, "send", ROME)
        for wrong in (
            f"{question}-{'0' * 15}-{'0' * 16}",
            f"{question}-{'0' * 17}-{'0' * 16}",
            f"{question}-{'0' * 16}-{'0' * 15}",
            f"{question}-{'0' * 16}-{'0' * 17}",
            f"{question}-{'0' * 16}",
            f"{question}-{'0' * 16}-{'0' * 16}-0",
            f"0-{question}-{'0' * 16}-{'0' * 16}",
            f"x{question}-{'0' * 16}-{'0' * 16}",
        ):
            with pytest.raises(InvalidValue) as refused:
                await asked(world, wrong, "send", ROME)
            assert (refused.value.path, "of this caller" in refused.value.message) == ("call_id", True)
        assert await world.keys(CALLS) == []
        good = f"{question}-{'0' * 16}-{'0' * 16}"
        assert await asked(world, good, "send", ROME) == [{"type": "call", "call_id": good, "earlier": False}, WAITING]


async def test_a_call_is_told_whole_from_its_id_to_its_outcome(desk: Desk, tmp_path: Path) -> None:
    arguments = '{"a":1,"b":2}'
    async with desk.open(tmp_path / "w") as world:
        for shows in (False, True):
            call, outcome = await anew(world, "add", arguments, shows=shows)
            assert (call["type"], call["earlier"]) == ("call", False)
            result = outcome.pop("result")
            assert outcome == {
                "type": "outcome",
                "status": "ended",
                "tool": "add",
                "ok": True,
                "error_code": None,
                "message": "",
                "view": b'{"sum":3}',
            }
            assert json.loads(result) == {
                "role": "tool",
                "tool_call_id": call["call_id"],
                "content": 'added\n\n{"sum":3,"first":1}',
                "value_at": 7,
            }
            again = await asked(world, call["call_id"], takes_up=True)
            assert again == [{**call, "earlier": True}, {**outcome, "result": result}]


async def test_a_call_that_is_watched_tells_its_progress_and_its_log(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        asking = asyncio.create_task(anew(world, "work", "{}", shows=True))
        await desk.began.wait()
        [call_id] = await world.keys(CALLS)
        looked = await asked(world, call_id, takes_up=True, waits=False, read=False)
        assert looked == [
            {"type": "call", "call_id": call_id, "earlier": True},
            {"type": "outcome", "status": "open", "tool": "work"},
        ]
        watching = world.acting_as(AGENT).backend.run.ask_call(call_id, "gone", "", "", takes_up=True, shows=True)
        await anext(watching)
        await anext(watching)
        await watching.aclose()
        desk.go_on.set()
        call, *shown, outcome = await asking
        assert call == {"type": "call", "call_id": call_id, "earlier": False}
        assert shown == [
            {"type": "tool_log", "level": "warning", "text": "slowly", "logger": "desk"},
            {"type": "tool_progress", "done": 1, "total": 2, "message": "half"},
        ]
        assert (outcome["status"], outcome["ok"]) == ("ended", True)


async def test_a_call_of_a_tool_that_is_not_there_ends_with_an_error_for_its_asker(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        _, outcome = await anew(world, "nowhere", "{}")
        told = json.loads(outcome.pop("result"))
        assert outcome == {
            "type": "outcome",
            "status": "ended",
            "tool": "nowhere",
            "ok": False,
            "error_code": "policy_denied",
            "message": outcome["message"],
            "view": None,
        }
        assert "policy_denied" in told["content"]


async def test_an_erased_result_is_left_out_of_the_outcome(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        call, _ = await anew(world, "add", '{"a":1,"b":2}', read=False)
        cell = await world.state(CALLS, call["call_id"])
        assert cell is not None
        await world.erase(cell["outcome"]["result_ref"], "It is private.")
        _, outcome = await asked(world, call["call_id"], takes_up=True)
        assert (outcome["ok"], outcome["result"], outcome["view"]) == (True, None, None)


async def test_only_a_call_of_the_caller_that_is_there_is_taken_up(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        missing = new_call_id(AGENT, "send", ROME, 0)
        with pytest.raises(NotFound) as refused:
            await asked(world, missing, takes_up=True)
        assert (refused.value.code, "no such call" in refused.value.message) == ("no_call", True)
        assert not await world.acting_as(AGENT).backend.run.leave_call(missing, "me", False)


async def test_a_call_is_kept_with_its_whole_question(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        for city, client, kept in (
            ("Rome", "", None),
            ("Oslo", "x" * 500, "x" * 500),
            ("Lima", "x" * 501, "x" * 500),
            ("Bonn", "a\ud800b", "a?b"),
        ):
            arguments = json.dumps({"city": city})
            call, _ = await anew(world, "send", arguments, client=client)
            cell = await world.state(CALLS, call["call_id"])
            assert cell is not None
            assert json.loads(world.blobs.get(Ref(cell["call_ref"]))) == {
                "id": call["call_id"],
                "name": "send",
                "arguments_json": arguments,
                **({"client": kept} if kept is not None else {}),
            }


async def test_an_event_that_may_have_been_lost_is_sent_again_under_its_id(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise Unavailable("The disk does not answer.")

    async with desk.open(tmp_path / "w") as world:
        assert isinstance(world.backend, Embedded)
        host = await world.backend.state.host()
        first = new_call_id(AGENT, "send", ROME, 0)
        with monkeypatch.context() as patch:
            patch.setattr(host, "submit", fails)
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await asked(world, first, "send", ROME)
        assert await anew(world, "send", ROME) == [{"type": "call", "call_id": first, "earlier": True}, WAITING]
        await asked(world, first, takes_up=True)
        assert (await anew(world, "send", ROME))[0]["call_id"] != first, "its answer was given"


async def test_an_answer_that_was_not_given_is_found_again_for_less_than_a_day(desk: Desk, tmp_path: Path) -> None:
    day, moment = timedelta(days=1), timedelta(microseconds=1)
    async with desk.open(tmp_path / "w") as world:
        for wait, is_found in ((day - moment, True), (day, False)):
            call, _ = await anew(world, "add", '{"a":1,"b":2}', read=False)
            desk.clock.advance(wait)
            again, _ = await anew(world, "add", '{"a":1,"b":2}')
            assert (again["call_id"] == call["call_id"], again["earlier"]) == (is_found, is_found)


async def test_the_call_that_has_ended_answers_first_and_then_the_oldest(desk: Desk, tmp_path: Path) -> None:
    """Two equal calls that only read are two calls while somebody waits for the first."""
    async with desk.open(tmp_path / "w") as world:
        run = world.acting_as(AGENT).backend.run
        ids = [new_call_id(AGENT, "look", ROME, number) for number in range(3)]
        waiting = [run.ask_call(call_id, call_id, "look", ROME) for call_id in ids]
        for frames, call_id in zip(waiting, ids, strict=True):
            assert await anext(frames) == {"type": "call", "call_id": call_id, "earlier": False}
            assert (await anext(frames))["status"] == "waiting"
        for frames in waiting:
            await frames.aclose()
        await approve(world, ids[1])
        told = [(await anew(world, "look", ROME, read=False))[0]["call_id"]]
    async with desk.open(tmp_path / "w") as world:
        for _ in range(3):
            call, outcome = await anew(world, "look", ROME)
            told.append(call["call_id"])
            if outcome["status"] == "waiting":
                await approve(world, call["call_id"])
                assert (await asked(world, call["call_id"], takes_up=True))[1]["ok"]
        assert told == [ids[1], ids[1], ids[0], ids[2]]
        assert (await anew(world, "look", ROME))[0]["earlier"] is False


async def test_equal_calls_that_act_are_one_call_while_its_answer_is_not_given(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        run = world.acting_as(AGENT).backend.run
        first, second = (new_call_id(AGENT, "send", ROME, number) for number in range(2))
        frames, others = (run.ask_call(call_id, call_id, "send", ROME) for call_id in (first, second))
        assert [await anext(frames), await anext(frames)] == [
            {"type": "call", "call_id": first, "earlier": False},
            WAITING,
        ]
        assert [await anext(others), await anext(others)] == [
            {"type": "call", "call_id": first, "earlier": True},
            WAITING,
        ]
        assert await run.leave_call(first, second, False), "the first asker waits"
        assert not await run.leave_call(first, first, False)
        assert [*[each async for each in frames], *[each async for each in others]] == []


@pytest.mark.parametrize("read", [True, False])
async def test_an_asker_waits_while_an_answer_is_given_to_another(desk: Desk, tmp_path: Path, read: bool) -> None:
    async with desk.open(tmp_path / "w") as world:
        run = world.acting_as(AGENT).backend.run
        first = new_call_id(AGENT, "send", ROME, 0)
        await asked(world, first, "send", ROME, read=False)
        await approve(world, first)
        giving = run.ask_call(first, "giving", takes_up=True, tool="", arguments_json="")
        await anext(giving)
        assert (await anext(giving))["status"] == "ended"
        late = asyncio.create_task(anew(world, "send", ROME, read=False))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not late.done()
        await run.leave_call(first, "giving", read)
        call, outcome = await late
        assert (call["call_id"] == first, call["earlier"]) == (not read, not read)
        assert outcome["status"] == ("waiting" if read else "ended")


async def test_an_answer_that_is_given_for_too_long_is_given_to_the_next_asker_too(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_calls, "GIVING_S", 0.01)
    async with desk.open(tmp_path / "w") as world:
        first = new_call_id(AGENT, "send", ROME, 0)
        await asked(world, first, "send", ROME, read=False)
        await approve(world, first)
        giving = world.acting_as(AGENT).backend.run.ask_call(first, "giving", "", "", takes_up=True)
        await anext(giving)
        await anext(giving)
        call, outcome = await anew(world, "send", ROME)
        assert (call, outcome["status"]) == ({"type": "call", "call_id": first, "earlier": True}, "ended")


async def test_of_many_questions_the_newest_are_kept_in_memory_and_the_others_found_in_the_journal(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_calls, "_QUESTIONS", 2)
    async with desk.open(tmp_path / "w") as world:
        told: dict[str, str] = {}
        for city in ("Rome", "Oslo", "Lima", "Rome", "Lima", "Oslo"):
            call, _ = await anew(world, "send", json.dumps({"city": city}), read=False, answers=[city])
            assert call["call_id"] == told.setdefault(city, call["call_id"])
        of = {city: calls_of(world).asker_of(Unit(CALLS, call_id)) for city, call_id in told.items()}
        assert of == {
            "Rome": Asker(verbatim=True),
            "Oslo": Asker(frozenset(["Oslo"]), verbatim=True),
            "Lima": Asker(frozenset(["Lima"]), verbatim=True),
        }


async def test_of_many_calls_for_one_question_only_the_newest_are_looked_at(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_calls, "_LOOKED_AT", 1)
    async with desk.open(tmp_path / "w") as world:
        run = world.acting_as(AGENT).backend.run
        ids = [new_call_id(AGENT, "look", ROME, number) for number in range(2)]
        waiting = [run.ask_call(call_id, call_id, "look", ROME) for call_id in ids]
        for frames in waiting:
            await anext(frames)
        for frames in waiting:
            await frames.aclose()
    async with desk.open(tmp_path / "w") as world:
        assert (await anew(world, "look", ROME))[0] == {"type": "call", "call_id": ids[1], "earlier": True}
        assert (await anew(world, "look", ROME))[0]["earlier"] is False


async def test_an_answer_is_noted_as_given_in_a_world_that_was_opened_since(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        call, _ = await anew(world, "send", ROME, read=False)
    async with desk.open(tmp_path / "w") as world:
        assert not await world.acting_as(AGENT).backend.run.leave_call(call["call_id"], "whoever asked", True)
        assert (await anew(world, "send", ROME))[0]["earlier"] is False
        notes = [each for each in world.journal.read(f"{CALLS}/{call['call_id']}") if each.kind == "call_read"]
        assert [(each.body, each.stamp.caller.actor) for each in notes] == [({}, "agent:a")]


async def test_the_asker_of_a_call_is_whoever_asked_last_and_said_what_it_answers(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        call, _ = await anew(world, "send", ROME, answers=["roots"], read=False)
        unit = Unit(CALLS, call["call_id"])
        of = calls_of(world).asker_of
        assert of(unit) == Asker(frozenset(["roots"]), verbatim=True)
        await asked(world, call["call_id"], takes_up=True, read=False)
        assert of(unit) == Asker(frozenset(["roots"]), verbatim=True)
        await asked(world, call["call_id"], takes_up=True, answers=[], read=False)
        assert of(unit) == Asker(verbatim=True)
        assert of(Unit(CALLS, "mine")) == Asker()
        assert of(Unit("demiurge/Demiurge@1", call["call_id"])) == Asker()


async def test_a_call_that_asks_its_asker_alone_is_returned_to_its_caller(desk: Desk, tmp_path: Path) -> None:
    async with desk.open(tmp_path / "w") as world:
        own, other = (world.acting_as(caller).backend.run for caller in (AGENT, OTHER))
        for of, is_own in (("program", True), ("person", False), ("both", False)):
            call, outcome = await anew(world, "ask", json.dumps({"of": of}), answers=["roots"])
            assert outcome == {"type": "outcome", "status": "waiting", "tool": "ask"}
            [waiting] = await world.approvals(Unit(CALLS, call["call_id"]))
            found = await own.own_request(call["call_id"])
            if is_own:
                assert found is not None
                assert {name: waiting[name] for name in found} == found
                assert [each["request"] for each in found["input"]["questions"]] == [ROOTS]
            else:
                assert found is None
            with pytest.raises(NotFound) as refused:
                await other.own_request(call["call_id"])
            assert refused.value.code == "no_call"
        call, _ = await anew(world, "add", '{"a":1,"b":2}')
        assert await own.own_request(call["call_id"]) is None
