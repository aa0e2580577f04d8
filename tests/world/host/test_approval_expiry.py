"""What waits for a person waits until its time is over, also when nobody ever comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.world.manual_clock import DAY, HOUR, Time
from tests.world.recomputed_stores import assert_sound
from tests.world.small_world import (
    MAIN,
    SYSTEM,
    ChatClient,
    ScriptedModel,
    call_answer,
    chat_adapters,
    chat_manifest,
    stored_records,
    text_answer,
)

from demiurge.errors import Conflict
from demiurge.stores import MemoryStore, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.policy import ToolPolicy
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import SeededEntropy
from demiurge.world.history.trace import lineage, trace
from demiurge.world.host import Host
from demiurge.world.host.timers import LONGEST_S
from demiurge.world.state import OpenIntent

POLICY = ToolPolicy(allowed_tools=("bump",), require_approval_for_tools=("bump",))
LIFETIME = 7 * DAY


async def bump(what: str) -> str:
    """Bumps the counter."""
    raise AssertionError(f"nobody allowed {what}")


BUMP = Tool.wrap(bump, name="bump")


@asynccontextmanager
async def chat_on_time(store: Store, time: Time, *answers: object, perform: bool = True) -> AsyncIterator[ChatClient]:
    store.put_blob(SYSTEM)
    model = ScriptedModel(*answers)  # type: ignore[arg-type]
    host = Host(
        store,
        chat_manifest([BUMP], POLICY),
        chat_adapters(model, [BUMP]),
        clock=time.clock,
        entropy=SeededEntropy(time.clock.now_ns()),
        perform=perform,
        sleep=time.sleep,
    )
    await host.start()
    talk = ChatClient(host)
    if store.head(str(MAIN)) is None:
        await talk.create()
    try:
        yield talk
    finally:
        await host.close()


def answer_with_calls(*what: str) -> object:
    return call_answer(*((f"c{number}", "bump", {"what": each}) for number, each in enumerate(what)))


def waiting_intents(talk: ChatClient) -> list[OpenIntent]:
    return [intent for _, intent in talk.host.approvals()]


def refusal_codes(talk: ChatClient) -> list[str]:
    return [canonical_json.parse_object(output["content"])["error_code"] for output in talk.outputs()]


def decisions(talk: ChatClient) -> list[tuple[str, str, int]]:
    return [(r.body["verdict"], r.body["by"], r.stamp.time_ns) for r in talk.records("approval")]


async def test_an_approval_that_nobody_gives_expires_at_its_time_and_the_chat_goes_on(store: Store) -> None:
    time = Time()
    async with chat_on_time(store, time, answer_with_calls("x"), text_answer("Pity.")) as talk:
        await talk.say("go")
        [asked] = waiting_intents(talk)
        assert asked.approval is not None
        await time.pass_by(LIFETIME - 1, talk.host)
        assert (waiting_intents(talk), decisions(talk)) == ([asked], [])
        await time.pass_by(1, talk.host)
        assert waiting_intents(talk) == []
        assert decisions(talk) == [("expire", "host", asked.approval["expires_ns"])]
        assert refusal_codes(talk) == ["approval_expired"]
        assert (talk.turn["status"], talk.roles()[-1]) == ("done", "assistant")
        assert max(time.asked) == LONGEST_S
        said_it = [record for record in stored_records(store) if record.kind == "event" and record.is_ingress][-1]
        lines = trace(lineage(stored_records(store), (said_it.unit, said_it.unit_seq)))
        lines = [line for line in lines if line.record.kind == "approval"]
        assert [(line.state, line.says, line.why) for line in lines] == [("expired", "expire by host", "")]
        assert_sound(store, talk.host)


async def test_settling_after_the_deadline_finds_the_approval_expired(memory: MemoryStore) -> None:
    time = Time()
    async with chat_on_time(memory, time, answer_with_calls("x"), text_answer("Pity.")) as talk:
        await talk.say("go")
        time.clock.advance(100 * DAY)  # nobody was woken
        await talk.host.settle()
        assert refusal_codes(talk) == ["approval_expired"]
        assert talk.turn["status"] == "done"


async def test_an_approval_whose_deadline_passed_while_nothing_ran_expires_at_the_units_next_use(store: Store) -> None:
    time = Time()
    async with chat_on_time(store, time, answer_with_calls("x")) as talk:
        await talk.say("go")
    time = Time(time.clock.now_ns() + LIFETIME)
    async with chat_on_time(store, time, text_answer("Pity.")) as talk:
        assert waiting_intents(talk) == []
        assert decisions(talk) == [], "looking changes nothing"
        await talk.host.settle()
        assert decisions(talk) == [("expire", "host", time.clock.now_ns())]
        assert (refusal_codes(talk), talk.turn["status"]) == (["approval_expired"], "done")


async def test_a_restart_before_its_time_does_not_make_it_wait_longer(store: Store) -> None:
    time = Time()
    async with chat_on_time(store, time, answer_with_calls("x")) as talk:
        await talk.say("go")
        await time.pass_by(LIFETIME - HOUR, talk.host)
    time = Time(time.clock.now_ns())
    async with chat_on_time(store, time, text_answer("Pity.")) as talk:
        await talk.host.settle()
        assert len(waiting_intents(talk)) == 1
        await time.pass_by(HOUR, talk.host)
        assert (refusal_codes(talk), talk.turn["status"]) == (["approval_expired"], "done")


async def test_each_request_has_its_own_time(memory: MemoryStore) -> None:
    time = Time()
    async with chat_on_time(
        memory, time, answer_with_calls("x", "y"), answer_with_calls("z"), text_answer("Well.")
    ) as talk:
        await talk.say("go")
        await time.pass_by(DAY, talk.host)
        for intent in waiting_intents(talk):
            await talk.host.decide(intent.id, approve=False, reason="", caller=Caller("anna"))
        await talk.host.settle()
        await time.pass_by(LIFETIME - HOUR, talk.host)
        assert len(waiting_intents(talk)) == 1
        await time.pass_by(HOUR, talk.host)
        assert refusal_codes(talk) == ["approval_rejected", "approval_rejected", "approval_expired"]


async def test_two_approvals_of_one_unit_both_expire(memory: MemoryStore) -> None:
    time = Time()
    async with chat_on_time(memory, time, answer_with_calls("x", "y"), text_answer("Well.")) as talk:
        await talk.say("go")
        await time.pass_by(LIFETIME, talk.host)
        assert refusal_codes(talk) == ["approval_expired"] * 2
        assert len(decisions(talk)) == 2


@pytest.mark.parametrize("person_first", [True, False])
async def test_a_decision_at_the_same_time_is_taken_or_not_and_one_is_recorded(
    memory: MemoryStore, *, person_first: bool
) -> None:
    time = Time()
    async with chat_on_time(memory, time, answer_with_calls("x"), text_answer("Well.")) as talk:
        await talk.say("go")
        [intent] = waiting_intents(talk)
        await time.rest(talk.host)
        time.clock.advance(LIFETIME)
        deciding = talk.host.decide(intent.id, approve=False, reason="no", caller=Caller("anna"))
        both = (deciding, talk.host.settle()) if person_first else (talk.host.settle(), deciding)
        outcomes = await asyncio.gather(*both, return_exceptions=True)
        errors = [outcome for outcome in outcomes if outcome is not None]
        [(verdict, _, _)] = decisions(talk)
        if person_first:
            assert (verdict, refusal_codes(talk), errors) == ("reject", ["approval_rejected"], [])
        else:
            [error] = errors
            assert isinstance(error, Conflict)
            assert (verdict, refusal_codes(talk), error.code) == ("expire", ["approval_expired"], "approval_expired")
        assert talk.turn["status"] == "done"


async def test_a_late_decision_is_told_that_it_is_late(store: Store) -> None:
    time = Time()
    async with chat_on_time(store, time, answer_with_calls("x")) as talk:
        await talk.say("go")
        [intent] = waiting_intents(talk)
    time = Time(time.clock.now_ns() + LIFETIME)
    async with chat_on_time(store, time, text_answer("Pity.")) as talk:
        with pytest.raises(Conflict) as late:
            await talk.host.decide(intent.id, approve=True, reason="", caller=Caller("anna"))
        assert late.value.code == "approval_expired"
        await talk.host.settle()
        assert len(decisions(talk)) == 1
        assert refusal_codes(talk) == ["approval_expired"]


async def test_a_host_without_adapters_leaves_the_expiry_to_the_next(memory: MemoryStore) -> None:
    time = Time()
    async with chat_on_time(memory, time, answer_with_calls("x")) as talk:
        await talk.say("go")
    time.clock.advance(LIFETIME)
    async with chat_on_time(memory, time, perform=False) as talk:
        await talk.host.settle()
        assert decisions(talk) == []
    async with chat_on_time(memory, time, text_answer("Pity.")) as talk:
        await talk.host.settle()
        assert refusal_codes(talk) == ["approval_expired"]
