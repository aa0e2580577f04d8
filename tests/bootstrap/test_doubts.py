"""A person settles what nobody knows: it is journaled, the ledger agrees, the model is told, and nothing runs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap import settle_doubt_child
from tests.bootstrap.child_program import run_program
from tests.bootstrap.settle_doubt_child import opened, paid, pay
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World
from demiurge.bootstrap.ledger import WorldLedger
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemClock

REASON = "I asked the bank."


@pytest.fixture
def provider() -> Iterator[Provider]:
    paid.clear()
    with serving() as running:
        yield running


def turns(provider: Provider, *calls: tuple[str, dict[str, str]]) -> None:
    """Each turn calls one tool and then says something."""
    said = [
        answer
        for number, (name, arguments) in enumerate(calls)
        for answer in (Provider.call(name, arguments, f"call_{number}"), Provider.text("There."))
    ]
    provider.say(*map(Provider.answer, said))


LOST = ("pay", {"invoice": "lost-1"})
INVOICE = json.dumps(LOST[1])
ADA = Caller("user:ada", tenant="shop", roles=("user",))


async def in_doubt(world: World) -> dict[str, Any]:
    await world.chat("shop").send("Pay it.")
    [doubt] = await world.doubts()
    return doubt


async def test_a_doubt_is_listed_with_its_call_and_what_the_ledger_says(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
    assert (doubt["unit"], doubt["tool"], doubt["tool_call_id"]) == ("demiurge/Demiurge@1/shop", "pay", "call_0")
    assert json.loads(doubt["arguments_json"]) == {"invoice": "lost-1"}
    assert (doubt["code"], doubt["ledger"], doubt["equal"], doubt["settled"]) == (
        "unknown_outcome",
        "in_doubt",
        [],
        None,
    )


async def test_a_doubt_settled_as_not_done_lets_the_call_run_and_tells_the_model(
    provider: Provider, tmp_path: Path
) -> None:
    turns(provider, LOST, LOST, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        before = world.journal.verify().records
        settled = await world.settle_doubt(doubt["id"], done=False, reason=REASON)
        assert paid == ["lost-1"], "nothing ran"
        assert world.journal.verify().records > before
        assert (settled["ledger"], settled["settled"]["done"], settled["settled"]["by"]) == (None, False, "user")
        assert settled["settled"]["reason"] == REASON
        assert settled["settled"]["at_ns"] > doubt["at_ns"]
        assert await world.doubts() == []
        assert len(await world.doubts(settled=True)) == 1
        reply = await world.chat("shop").send("And now?")
        assert [call.ok for call in reply.tool_calls] == [True]
        assert paid == ["lost-1", "lost-1"]
        assert REASON in json.dumps(provider.seen[-2]["input"]), "the model is told at its next turn"
        assert "did not take effect" in json.dumps(provider.seen[-2]["input"])
        [note] = [m for m in await world.chat("shop").messages() if m["role"] == "system"]
        assert "pay" in note["text"]
        assert world.journal.verify().ok
        assert (await world.replay())["ok"]
    async with opened(str(tmp_path / "w"), provider.url) as world:
        assert (await world.replay())["ok"]


async def test_a_doubt_settled_as_done_answers_equal_calls_with_the_result(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        settled = await world.settle_doubt(doubt["id"], done=True, reason=REASON, result={"number": 7})
        assert settled["ledger"] == "done"
        reply = await world.chat("shop").send("And now?")
        assert [call.ok for call in reply.tool_calls] == [True]
        assert '\\"number\\":7' in json.dumps(provider.seen[-1]["input"])
        assert (await world.replay())["ok"]
    assert paid == ["lost-1"], "an equal call is answered, and does not run"


async def test_a_doubt_may_be_settled_as_done_without_a_result(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        await world.settle_doubt(doubt["id"], done=True, reason=REASON)
        reply = await world.chat("shop").send("And now?")
        assert [(call.ok, call.error_code) for call in reply.tool_calls] == [(True, None)]
    assert paid == ["lost-1"]


async def test_a_doubt_is_settled_once(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        await world.settle_doubt(doubt["id"], done=True, reason=REASON, result={"number": 7})
        records = world.journal.verify().records
        await world.settle_doubt(doubt["id"], done=True, reason=REASON, result={"number": 7})
        assert world.journal.verify().records == records, "the same again changes nothing"
        for other in ({"done": False}, {"done": True}, {"done": True, "result": {"number": 8}}):
            with pytest.raises(Conflict) as refused:
                await world.settle_doubt(doubt["id"], reason=REASON, **other)
            assert refused.value.code == "settled"
        assert world.journal.verify().records == records


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"done": True, "reason": ""}, InvalidValue),
        ({"done": True, "reason": "x" * 2001}, InvalidValue),
        ({"done": True, "reason": REASON, "result": {"number": "seven"}}, InvalidValue),
        ({"done": True, "reason": REASON, "result": {"other": 7}}, InvalidValue),
        ({"done": False, "reason": REASON, "result": {"number": 7}}, UsageError),
        ({"done": 1, "reason": REASON}, UsageError),
    ],
)
async def test_an_impossible_settlement_is_refused_and_changes_nothing(
    given: dict[str, Any], kind: type[DemiurgeError], provider: Provider, tmp_path: Path
) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        records = world.journal.verify().records
        with pytest.raises(kind):
            await world.settle_doubt(doubt["id"], **given)
        assert world.journal.verify().records == records
        assert await world.doubts() == [doubt]
        with pytest.raises(NotFound):
            await world.settle_doubt("00" * 32, done=True, reason=REASON)


async def test_equal_calls_are_settled_together_and_each_chat_is_told(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST, LOST, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        await world.chat("shop").send("Pay it.")
        await world.chat("other").send("Pay it.")
        first, second = await world.doubts()
        assert first["equal"] == [second["id"]]
        await world.settle_doubt(second["id"], done=False, reason=REASON)
        assert await world.doubts() == []
        with pytest.raises(Conflict):
            await world.settle_doubt(first["id"], done=True, reason=REASON)
        for chat in ("shop", "other"):
            assert len((await world.chat(chat).state() or {})["notes"]) == 1
    assert paid == ["lost-1"]


async def test_an_effect_without_an_entry_in_the_ledger_is_settled_too(provider: Provider, tmp_path: Path) -> None:
    turns(provider, ("ring", {"bell": "b"}), ("ring", {"bell": "b"}))
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        assert doubt["ledger"] is None
        await world.settle_doubt(doubt["id"], done=True, reason=REASON, result="It rang.")
        await world.chat("shop").send("And now?")
        assert "It rang." in json.dumps(provider.seen[2]["input"])
        assert len(await world.doubts()) == 1, "each call of a tool without idempotency is its own"


async def test_an_entry_that_no_record_accounts_for_is_settled_by_its_own_id(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(str(folder)) as world:
        await world.settle()
    ledger = WorldLedger(folder, SystemClock()).existing()
    assert ledger is not None
    from demiurge.tools import LedgerSlot

    slot = LedgerSlot("", "pay", "shop:pay:x")
    claim = ledger.claim(slot, params_hash="", ttl_ns=None, now_ns=1).claimed
    assert claim is not None
    ledger.doubt(claim)
    ledger.close()
    async with opened(str(folder)) as world:
        [doubt] = await world.doubts()
        assert (doubt["unit"], doubt["tool"], doubt["ledger"]) == (None, "pay", "in_doubt")
        await world.settle_doubt(doubt["id"], done=False, reason=REASON)
        assert await world.doubts() == []
        assert (await world.replay())["ok"]


async def test_a_doubt_of_a_tenant_is_found_in_the_ledger_and_settled(tmp_path: Path) -> None:
    paid.clear()
    async with opened(str(tmp_path / "w")) as world:
        ada = world.acting_as(ADA)
        assert (await ada.call("pay", INVOICE, "c1")).error_code == "unknown_outcome"
        [doubt] = await world.doubts()
        assert (doubt["tool"], doubt["actor"], doubt["ledger"]) == ("pay", "user:ada", "in_doubt")
        await world.settle_doubt(doubt["id"], done=True, reason=REASON, result={"number": 7})
        assert await world.doubts() == []
        again = await ada.call("pay", INVOICE, "c2")
        assert (again.ok, again.replayed, paid) == (True, True, ["lost-1"])


async def test_a_call_of_a_tenant_is_in_doubt_after_the_ledger_was_lost(tmp_path: Path) -> None:
    paid.clear()
    async with opened(str(tmp_path / "w")) as world:
        await world.acting_as(ADA).call("pay", INVOICE, "c1")
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (tmp_path / "w" / name).unlink(missing_ok=True)
    async with World.open(tmp_path / "w", [pay], ToolPolicy(("pay",)), accept_losses="No backup.") as world:
        again = await world.acting_as(ADA).call("pay", INVOICE, "c2")
        assert (again.error_code, paid) == ("unknown_outcome", ["lost-1"])
        assert {doubt["ledger"] for doubt in await world.doubts()} == {"in_doubt"}


async def test_a_tool_that_is_not_here_keeps_its_entry(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        await in_doubt(world)
    async with World.open(tmp_path / "w", environment={"LLM_API_KEY": "sk-test"}) as world:
        doubt = (await world.doubts())[0]
        with pytest.raises(NotFound) as refused:
            await world.settle_doubt(doubt["id"], done=False, reason=REASON)
        assert refused.value.code == "tool_missing"


async def test_a_fork_has_the_doubt_or_its_settlement(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        before = world.journal.verify().records
        await world.settle_doubt(doubt["id"], done=True, reason=REASON)
        await world.fork(tmp_path / "early", at=before)
        await world.fork(tmp_path / "late")
    async with opened(str(tmp_path / "late")) as fork:
        assert await fork.doubts() == []
        [settled] = await fork.doubts(settled=True)
        assert settled["settled"]["reason"] == REASON
        assert (await fork.replay())["ok"]
    async with opened(str(tmp_path / "early")) as fork:
        [open_] = await fork.doubts()
        assert (open_["id"], open_["ledger"]) == (doubt["id"], "done"), "what is done outside is done for a fork too"
        with pytest.raises(Conflict) as refused:
            await fork.settle_doubt(open_["id"], done=False, reason=REASON)
        assert refused.value.code == "known"
        await fork.settle_doubt(open_["id"], done=True, reason=REASON)
        assert (await fork.replay())["ok"]


async def test_a_trace_shows_who_settled_it(provider: Provider, tmp_path: Path) -> None:
    from demiurge.world.history.trace import lineage, trace

    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        await world.settle_doubt(doubt["id"], done=False, reason=REASON)
        records = list(world.journal.read())
        root = next((r.unit, r.unit_seq) for r in records if r.kind == "event" and "UserMessage" in str(r.body))
        says = [line.says for line in trace(lineage(records, root))]
        assert f"not done, says user: {REASON}" in says
        assert any("DoubtSettled" in said for said in says)


async def test_an_event_from_outside_cannot_settle_a_doubt(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        await in_doubt(world)
        value = {"intent": b"", "kind": "", "done": True, "reason": "", "by": "user"}
        with pytest.raises(DemiurgeError):
            await world.submit("demiurge/ChatEvent@1", {"$tag": "DoubtSettled", "$value": value}, key="shop")
        assert not (await world.chat("shop").state() or {}).get("notes")


async def test_a_guest_of_the_owner_settles_it_there(provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
        done = await run_program("settle_doubt_child", tmp_path / "w", "not-done")
        assert done.returncode == 0, done.stderr
        assert await world.doubts() == []
        assert (await world.doubts(settled=True))[0]["id"] == doubt["id"]


POINTS = (
    "doubt.decided",
    "ledger.edit.before_commit",
    "ledger.edit.after_commit",
    "doubt.ledger_agrees",
    "doubt.settled",
)


@pytest.mark.sampled
@pytest.mark.parametrize("verdict", ["done", "not-done"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_leaves_no_contradiction(point: str, verdict: str, provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
    killed = await run_program("settle_doubt_child", tmp_path / "w", verdict, faults=f"{point}=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        reply = await world.chat("shop").send("And now?")
        assert [call.ok for call in reply.tool_calls] == [True], "the decision was recorded, so it holds"
        assert paid == (["lost-1"] if verdict == "done" else ["lost-1", "lost-1"])
        assert REASON in json.dumps(provider.seen[0]["input"])
        [settled] = await world.doubts(settled=True)
        assert settled["settled"]["done"] is (verdict == "done")
        with pytest.raises(Conflict):
            await world.settle_doubt(doubt["id"], done=verdict != "done", reason=REASON)
        assert world.journal.verify().ok
        assert (await world.replay())["ok"]


@pytest.mark.parametrize("verdict", ["done", "not-done"])
async def test_a_kill_before_the_decision_leaves_the_doubt(verdict: str, provider: Provider, tmp_path: Path) -> None:
    turns(provider, LOST)
    async with opened(str(tmp_path / "w"), provider.url) as world:
        doubt = await in_doubt(world)
    killed = await run_program("settle_doubt_child", tmp_path / "w", verdict, faults="journal.before_commit=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    async with opened(str(tmp_path / "w"), provider.url) as world:
        assert await world.doubts() == [doubt]
        await world.settle_doubt(doubt["id"], done=False, reason=REASON)
        assert await world.doubts() == []


def test_the_tool_of_these_tests_has_a_key() -> None:
    assert pay.idempotency is not None
    assert settle_doubt_child.ring.idempotency is None
