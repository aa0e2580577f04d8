"""A world's ledger: equal calls of two turns, two chats, two processes are one, and nobody is asked about what is done
(seed 004, Idempotency Ledger; architecture.md 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.world.effects.test_resumed_calls import left_open
from tests.world.effects.test_tool_call import (
    Outside,
    approve,
    bump_call,
    output_contents,
    policy_that_asks,
    refusal_codes,
)
from tests.world.small_world import (
    MAIN,
    START_NS,
    ChatClient,
    ScriptedModel,
    call_answer,
    chat_world,
    stop_before_effect,
    text_answer,
)

from demiurge.stores import MemoryStore, Store
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ledger.idempotency import IdempotencyConfig, IdempotencyStrategy, compute_params_hash
from demiurge.tools.ledger.ledger import EffectLedger, partition_of
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.tools.result import ToolResult
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import FixedClock
from demiurge.world.unit import Unit

ALLOWED = ToolPolicy(allowed_tools=("bump",))
ASKED = policy_that_asks("bump")
OTHER = Unit(MAIN.module, "other")
ONCE, SHOP = IdempotencyConfig(), IdempotencyConfig(scope="shop")


class Kept:
    """A ledger that is opened again as often as a world is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open = ExitStack()

    def opened(self) -> SqliteEffectLedger:
        self._open.close()
        return self._open.enter_context(SqliteEffectLedger(self.folder / "ledger.db", clock=FixedClock(START_NS)))

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    folder = tmp_path / "kept"
    folder.mkdir(0o700)
    made = Kept(folder)
    yield made
    made.close()


def replayed_flags(talk: ChatClient) -> list[bool]:
    """Of each call of the chat that has a receipt, whether the ledger answered it."""
    refs = [receipt["payload"]["record_ref"] for receipt in talk.receipts("tool.call") if receipt["status"] == "ok"]
    return [canonical_json.parse_object(talk.host.get_blob(ref))["replayed"] for ref in refs]


def model_of_turns(count: int, what: str = "x") -> ScriptedModel:
    return ScriptedModel(
        *(answer for _ in range(count) for answer in (call_answer(bump_call(what)), text_answer("done")))
    )


async def test_equal_calls_of_two_turns_are_one(store: Store, kept: Kept) -> None:
    outside = Outside()
    tools = [outside.tool(idempotency=ONCE)]
    async with chat_world(store, model_of_turns(2), tools, ledger=kept.opened()) as talk:
        await talk.say("go")
        await talk.say("and again")
        assert replayed_flags(talk) == [False, True]
        assert output_contents(talk)[0] == output_contents(talk)[1]
        assert talk.turn["status"] == "done"
        assert list(talk.host.replay())
    assert outside.seen == ["x"]


async def test_equal_calls_of_two_processes_are_one(store: Store, kept: Kept) -> None:
    outside = Outside()
    for expected in ([False], [False, True]):
        async with chat_world(store, model_of_turns(1), [outside.tool(idempotency=ONCE)], ledger=kept.opened()) as talk:
            await talk.say("go")
            assert replayed_flags(talk) == expected
    assert outside.seen == ["x"]


@pytest.mark.parametrize(("config", "seen"), [(ONCE, ["x", "x"]), (SHOP, ["x"])])
async def test_two_chats_share_what_the_scope_says(
    store: Store, kept: Kept, config: IdempotencyConfig, seen: list[str]
) -> None:
    outside = Outside()
    async with chat_world(store, model_of_turns(2), [outside.tool(idempotency=config)], ledger=kept.opened()) as talk:
        await talk.say("go")
        other = ChatClient(talk.host, OTHER)
        await other.create()
        await other.say("go")
        assert replayed_flags(other) == [len(seen) == 1]
    assert outside.seen == seen


async def test_a_call_that_is_not_equal_or_has_no_key_runs(memory: MemoryStore) -> None:
    outside = Outside()
    keyless = outside.tool(name="any", idempotency=IdempotencyConfig(IdempotencyStrategy.NONE))
    tools = [outside.tool(idempotency=ONCE), keyless]
    policy = ToolPolicy(allowed_tools=("bump", "any"))
    calls = [bump_call("x"), bump_call("y"), ("c1", "any", {"what": "z"}), ("c1", "any", {"what": "z"})]
    model = ScriptedModel(*(answer for call in calls for answer in (call_answer(call), text_answer("done"))))
    async with chat_world(memory, model, tools, policy=policy, ledger=EffectLedger(clock=FixedClock(START_NS))) as talk:
        for _ in calls:
            await talk.say("go")
    assert outside.seen == ["x", "y", "z", "z"]


# -- people -----------------------------------------------------------------------------------------------------------


async def test_nobody_is_asked_about_what_is_done(store: Store, kept: Kept) -> None:
    outside = Outside()
    tools = [outside.tool(idempotency=ONCE)]
    async with chat_world(store, model_of_turns(2), tools, policy=ASKED, ledger=kept.opened()) as talk:
        await talk.say("go")
        await approve(talk)
        await talk.say("and again")
        assert (talk.turn["status"], talk.host.approvals()) == ("done", [])
        assert replayed_flags(talk) == [False, True]
        assert len(talk.records("approval")) == 1
        assert list(talk.host.replay())
    assert outside.seen == ["x"]


async def test_a_waiting_call_taken_up_after_a_restart_is_answered_from_the_ledger(store: Store, kept: Kept) -> None:
    outside = Outside()
    tools = [outside.tool(idempotency=SHOP)]
    async with chat_world(store, model_of_turns(1), tools, policy=ASKED, ledger=kept.opened()) as talk:
        await talk.say("go")
        assert len(talk.host.approvals()) == 1
    async with chat_world(store, model_of_turns(1), tools, policy=ASKED, ledger=kept.opened()) as talk:
        other = ChatClient(talk.host, OTHER)
        await other.create()
        await other.say("go", settle=False)
        await talk.host.settle(OTHER)
        waiting = {str(unit): intent for unit, intent in talk.host.approvals()}
        await talk.host.decide(waiting[str(OTHER)].id, approve=True, reason="", caller=Caller("anna"))
        await talk.host.settle(OTHER)
    async with chat_world(store, ScriptedModel(text_answer("done")), tools, policy=ASKED, ledger=kept.opened()) as talk:
        await talk.host.settle()
        assert (talk.turn["status"], talk.host.approvals(), replayed_flags(talk)) == ("done", [], [True])
    assert outside.seen == ["x"]


async def test_approving_two_equal_calls_runs_one_of_them(store: Store, kept: Kept) -> None:
    """Two chats wait for a person with an equal call, and both are approved."""
    outside = Outside()
    tools = [outside.tool(idempotency=SHOP)]
    model = ScriptedModel(call_answer(bump_call()), call_answer(bump_call()), text_answer("done"), text_answer("done"))
    async with chat_world(store, model, tools, policy=ASKED, ledger=kept.opened()) as talk:
        await talk.say("go")
        other = ChatClient(talk.host, OTHER)
        await other.create()
        await other.say("go")
        for _, intent in talk.host.approvals():
            await talk.host.decide(intent.id, approve=True, reason="", caller=Caller("anna"))
        await talk.host.settle()
        assert sorted([*replayed_flags(talk), *replayed_flags(other)]) == [False, True]
    assert outside.seen == ["x"]


async def test_a_call_that_is_not_in_the_ledger_still_waits_for_approval(memory: MemoryStore) -> None:
    outside = Outside()
    ledger = EffectLedger(clock=FixedClock(START_NS))
    async with chat_world(
        memory, model_of_turns(1), [outside.tool(idempotency=ONCE)], policy=ASKED, ledger=ledger
    ) as talk:
        await talk.say("go")
        assert len(talk.host.approvals()) == 1
        assert talk.turn["status"] == "tools"
    assert outside.seen == []


async def test_a_policy_that_denies_now_gives_no_stored_answer(store: Store, kept: Kept) -> None:
    outside = Outside()
    tools = [outside.tool(idempotency=ONCE)]
    await left_open(store, tools, ALLOWED)
    settle_call(kept.opened())
    async with chat_world(
        store, ScriptedModel(text_answer("done")), tools, policy=ToolPolicy(), ledger=kept.opened()
    ) as talk:
        await talk.host.settle()
        assert refusal_codes(talk) == ["policy_denied"]


async def test_an_answer_needs_time_and_budget_like_any_other(memory: MemoryStore) -> None:
    outside = Outside()
    policy = ToolPolicy(allowed_tools=("bump",), budgets=Budgets(unit=Allowance(max_tool_calls=1)))
    ledger = EffectLedger(clock=FixedClock(START_NS))
    async with chat_world(
        memory, model_of_turns(2), [outside.tool(idempotency=ONCE)], policy=policy, ledger=ledger
    ) as talk:
        await talk.say("go")
        await talk.say("again")
        assert "budget_exceeded" in output_contents(talk)[-1]


# -- attempts without a receipt ---------------------------------------------------------------------------------------


async def begin_call(store: Store, tools: list[Any], ledger: EffectLedger) -> None:
    """A call that a process began and did not end."""
    async with chat_world(store, model_of_turns(1), tools, perform=True, ledger=ledger) as talk:
        stop_before_effect(talk.host, "tool.call", attempted_in=store)
        await talk.say("go")


def call_slot() -> LedgerSlot:
    """That of the chat's call."""
    digest = compute_params_hash({"what": "x"})
    return LedgerSlot(partition_of(run=str(MAIN)), "bump", f"session:bump:{digest}")


def claim_slot(ledger: EffectLedger, *, ttl_ns: int | None = None, now_ns: int = START_NS) -> LedgerRow:
    claim = ledger.claim(call_slot(), params_hash="", ttl_ns=ttl_ns, now_ns=now_ns).claimed
    assert claim is not None
    return claim


def settle_call(ledger: EffectLedger, *, ttl_ns: int | None = None, now_ns: int = START_NS) -> None:
    """The call has done its work."""
    claim = claim_slot(ledger, ttl_ns=ttl_ns, now_ns=now_ns)
    ledger.settle(claim, message="bumped", value=b'"bumped x"', excluded=False, ttl_ns=ttl_ns, now_ns=now_ns)


@pytest.mark.parametrize("state", [None, *EntryState])
async def test_the_ledger_answers_an_attempt_without_a_receipt(
    store: Store, kept: Kept, state: EntryState | None
) -> None:
    outside = Outside()
    tool = outside.tool(idempotency=ONCE)
    ledger = kept.opened()
    await begin_call(store, [tool], ledger)
    match state:
        case EntryState.DONE:
            settle_call(ledger)
        case EntryState.CLAIMED:
            claim_slot(ledger)
        case EntryState.IN_DOUBT:
            ledger.doubt(claim_slot(ledger))
    model = ScriptedModel(text_answer("done"), call_answer(bump_call()), text_answer("done"))
    async with chat_world(store, model, [tool], ledger=kept.opened()) as talk:
        await talk.host.settle()
        assert outside.seen == []
        if state is EntryState.DONE:
            assert replayed_flags(talk) == [True]
        else:
            assert refusal_codes(talk) == ["unknown_outcome"]
        await talk.say("once more")
        assert outside.seen == (["x"] if state is None else [])


async def test_a_tool_that_can_find_out_is_asked_and_the_ledger_learns_it(store: Store, kept: Kept) -> None:
    outside, asked = Outside(), list[str]()

    def was_it(params: Any, *, context: ToolContext) -> ToolResult[str]:
        asked.append("?")
        return ToolResult("It was.", "bumped x")

    tool = outside.tool(idempotency=ONCE, reconcile=was_it)
    await begin_call(store, [tool], kept.opened())
    model = ScriptedModel(text_answer("done"), call_answer(bump_call()), text_answer("done"))
    async with chat_world(store, model, [tool], ledger=kept.opened()) as talk:
        await talk.host.settle()
        await talk.say("once more")
        assert replayed_flags(talk) == [False, True]
    assert (outside.seen, asked) == ([], ["?"])


async def test_an_attempt_whose_ledger_entry_expired_is_in_doubt_and_not_repeated(store: Store, kept: Kept) -> None:
    """The entry has ended with its time before the world was opened again."""
    outside = Outside()
    tool = outside.tool(idempotency=IdempotencyConfig(ttl=timedelta(microseconds=1)))
    ledger = kept.opened()
    await begin_call(store, [tool], ledger)
    settle_call(ledger, ttl_ns=1000, now_ns=START_NS - 10**9)
    async with chat_world(store, ScriptedModel(text_answer("done")), [tool], ledger=kept.opened()) as talk:
        await talk.host.settle()
        assert refusal_codes(talk) == ["unknown_outcome"]
    assert outside.seen == []


async def test_a_read_runs_again(store: Store, kept: Kept) -> None:
    outside = Outside()
    tool = outside.tool(ToolEffect.READ_ONLY, idempotency=ONCE)
    await begin_call(store, [tool], kept.opened())
    async with chat_world(store, ScriptedModel(text_answer("done")), [tool], ledger=kept.opened()) as talk:
        await talk.host.settle()
        assert replayed_flags(talk) == [False]
    assert outside.seen == ["x"]
