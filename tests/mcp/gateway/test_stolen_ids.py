"""Attacks with the id of another caller's call: whoever reads an id in the journal can block and steal nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.mcp.gateway.conftest import AGENT, OTHER, Shop, text_of

from demiurge import World
from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend.asked_calls import new_call_id
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound
from demiurge.values import canonical_json
from demiurge.values.caller import Caller

ROME = {"city": "Rome"}
ROME_JSON = json.dumps(ROME)
ANOTHER_TENANT = Caller("agent:a", tenant="elsewhere", roles=("agent",), transport="http")
LATER_NS = 1 << 62


async def outcomes(frames: Any) -> list[Any]:
    return [shown async for shown in frames]


def ids_in_journal(thief: World) -> Sequence[str]:
    """The ids of all calls, as any agent reads them."""
    return [head.unit.removeprefix(f"{CALLS}/") for head in thief.backend.read.heads(f"{CALLS}/", 100)]


async def ask_by_event(thief: World, call_id: str, arguments: str = ROME_JSON) -> None:
    proposed = {"id": call_id, "name": "send_parcel", "arguments_json": arguments}
    ref = thief.backend.run.put_blob(canonical_json.encode(proposed))
    await thief.submit("demiurge/CallAsked@1", {"call_id": call_id, "tool": "send_parcel", "call_ref": ref})


@pytest.mark.parametrize("caller", [OTHER, ANOTHER_TENANT])
async def test_an_id_read_in_the_journal_blocks_and_steals_nothing(shop: Shop, caller: Caller) -> None:
    thief = shop.world.acting_as(caller)
    async with shop.client(AGENT) as client:
        first = await client.call_tool("send_parcel", ROME)
    [call_id] = ids_in_journal(thief)
    beginning = call_id.rsplit("-", 2)[0]
    newest = f"{beginning}-{0:016x}-{'0' * 16}"
    for forged in (call_id, newest, f"{beginning}-{LATER_NS:016x}-{'a' * 16}", "mcp-0-0-0", f"{beginning}-x-y", "mcp-"):
        with pytest.raises(InvalidValue, match="call_id"):
            await outcomes(thief.backend.run.ask_call(forged, "thief", "send_parcel", ROME_JSON))
        with pytest.raises(Conflict, match="gateway"):
            await ask_by_event(thief, forged)
    for steal in (
        thief.backend.run.leave_call(call_id, "thief", True),
        outcomes(thief.backend.run.ask_call(call_id, "thief", "", "", takes_up=True)),
        thief.backend.run.own_request(call_id),
    ):
        with pytest.raises(DemiurgeError) as refused:
            await steal
        assert refused.value.code == "no_call"
    assert ids_in_journal(thief) == [call_id]
    await shop.approve()
    async with shop.client(AGENT) as client:
        assert text_of(await client.call_tool("send_parcel", ROME)) == "sent to Rome"
    assert first.structured_content["status"] == "awaiting_approval"
    assert shop.runs == ["Rome"]


async def test_an_asker_that_left_is_shown_the_end_of_its_call_all_the_same(shop: Shop) -> None:
    """As when its request is cancelled while the call runs: whoever asks again gets the answer too."""
    own = shop.world.acting_as(AGENT).backend.run
    call_id = new_call_id(AGENT, "send_parcel", ROME_JSON, 0)
    frames = own.ask_call(call_id, "me", "send_parcel", ROME_JSON)
    assert await anext(frames) == {"type": "call", "call_id": call_id, "earlier": False}
    waiting = await anext(frames)
    with pytest.raises(NotFound) as refused:  # also while the caller whose call it is waits for it
        await shop.world.acting_as(OTHER).backend.run.leave_call(call_id, "thief", True)
    assert refused.value.code == "no_call"
    assert waiting == {"type": "outcome", "status": "waiting", "tool": "send_parcel"}
    assert not await own.leave_call(call_id, "me", False)
    looking = own.ask_call(call_id, "you", "", "", takes_up=True, waits=False)
    assert [(await anext(looking))["earlier"], await anext(looking)] == [True, waiting]
    left = own.ask_call(call_id, "them", "", "", takes_up=True)
    await anext(left)
    await own.leave_call(call_id, "them", False)
    await shop.approve()
    ended = await anext(left)
    assert (ended["type"], ended["status"], ended["tool"], ended["ok"]) == ("outcome", "ended", "send_parcel", True)
    async with shop.client(AGENT) as client:
        assert text_of(await client.call_tool("send_parcel", ROME)) == "sent to Rome"


async def test_an_answer_that_was_given_is_noted_also_if_its_wait_is_forgotten(shop: Shop) -> None:
    """As when another process owns the world by the time that the client has the answer."""
    async with shop.client(AGENT) as client:
        call_id = (await client.call_tool("send_parcel", ROME)).structured_content["call_id"]
        await shop.approve()
        assert not await shop.world.acting_as(AGENT).backend.run.leave_call(call_id, "whoever asked", True)
        again = await client.call_tool("send_parcel", ROME)
    assert again.structured_content["call_id"] != call_id
    assert again.structured_content["status"] == "awaiting_approval"


async def test_a_call_that_another_caller_planted_before_such_ids_were_refused_is_passed_over(shop: Shop) -> None:
    assert isinstance(shop.world.backend, Embedded)
    host = await shop.world.backend.state.host()
    planted = new_call_id(AGENT, "note", '{"text": "hi"}', 0)
    proposed = {"id": planted, "name": "note", "arguments_json": '{"text": "stolen"}'}
    ref = await host.put_blob(canonical_json.encode(proposed))
    event = {"call_id": planted, "tool": "note", "call_ref": ref}
    await host.submit("demiurge/CallAsked@1", event, caller=OTHER)
    await shop.world.settle()
    async with shop.client(AGENT) as client:
        assert text_of(await client.call_tool("note", {"text": "hi"})) == "noted hi"
    assert shop.runs == ["stolen", "hi"]


async def test_an_id_is_good_for_its_tool_and_arguments_alone(shop: Shop) -> None:
    own = shop.world.acting_as(AGENT).backend.run
    call_id = new_call_id(AGENT, "send_parcel", ROME_JSON, 0)
    for tool, arguments in (("note", ROME_JSON), ("send_parcel", '{"city":"Oslo"}'), ("send_parcel", "no JSON")):
        with pytest.raises(InvalidValue, match="call_id"):
            await outcomes(own.ask_call(call_id, "me", tool, arguments))
    spaced = new_call_id(AGENT, "send_parcel", '{ "city" : "Rome" }', 0)
    assert spaced.rsplit("-", 2)[0] == call_id.rsplit("-", 2)[0], "equal arguments, however they are written"


async def test_a_call_id_of_ones_own_belongs_to_who_asked_first(shop: Shop) -> None:
    await ask_by_event(shop.world.acting_as(OTHER), "parcel-7")
    for late in (AGENT, ANOTHER_TENANT):
        with pytest.raises(Conflict, match="choose another id") as refused:
            await ask_by_event(shop.world.acting_as(late), "parcel-7")
        assert refused.value.code == "exists"
        with pytest.raises(Conflict, match="choose another id"):
            await shop.world.acting_as(late).call("send_parcel", ROME_JSON, "parcel-7")
    again = await shop.world.acting_as(OTHER).call("send_parcel", ROME_JSON, "parcel-7")
    assert again.status == "awaiting_approval"
    [waiting] = await shop.world.approvals()
    assert waiting["unit"] == f"{CALLS}/parcel-7"


async def test_an_idempotency_key_belongs_to_its_caller(shop: Shop) -> None:
    """An agent that sends an event first, under the key of another, neither takes its place nor refuses it."""

    async def sent(caller: Caller, title: str) -> int:
        event = {"chat_id": "desk", "title": title, "created_at_ms": 0}
        world = shop.world.acting_as(caller)
        return (await world.submit("demiurge/ChatCreated@1", event, idempotency_key="order-7")).seq

    stolen = await sent(OTHER, "Mine")
    equal, other = await sent(AGENT, "Mine"), await sent(ANOTHER_TENANT, "Another")
    assert len({stolen, equal, other}) == 3
    assert await sent(AGENT, "Mine") == equal
    with pytest.raises(Conflict, match="order-7"):
        await sent(AGENT, "Changed")


async def test_a_gateways_id_is_refused_in_each_form_of_the_event(shop: Shop) -> None:
    thief = shop.world.acting_as(OTHER)
    ref = thief.backend.run.put_blob(canonical_json.encode({"id": "mcp-1", "name": "note", "arguments_json": "{}"}))
    asked = {"$tag": "Asked", "$value": {"call_id": "mcp-1", "tool": "note", "call_ref": ref}}
    with pytest.raises(Conflict, match="gateway"):
        await thief.submit("demiurge/CallsEvent@1", asked)
