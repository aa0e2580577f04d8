"""The key of the specification reaches what a tool left in the ledger, also when its call had a session or a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tools.order_shop import NAME, Order, Receipt, Shop, order_tool, runner_for

from demiurge import Session, SqliteEffectLedger
from demiurge.errors import InvalidValue
from demiurge.tools import (
    EffectLedger,
    IdempotencyConfig,
    LedgerSlot,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    compute_idempotency_key,
    partition_of,
)
from demiurge.tools.ledger.partitions import is_open

ARGS = {"order_id": "o"}
RUN = ToolPolicyContext(run_id="r")
RECORDED = ToolResult("by hand", Receipt("o"))


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EffectLedger]:
    if request.param == "memory":
        yield EffectLedger()
        return
    with SqliteEffectLedger(tmp_path / "ledger.db") as made:
        yield made


@pytest.fixture
def shop() -> Shop:
    return Shop()


def runner(ledger: EffectLedger, shop: Shop, **options: Any) -> ToolRunner:
    return runner_for(order_tool(shop.place), ledger, **options)


def key() -> str:
    found = compute_idempotency_key(tool_name=NAME, params=Order("o"), config=IdempotencyConfig())
    assert found is not None
    return found


def record(ledger: EffectLedger, place: str | LedgerSlot) -> None:
    ledger.record(idempotency_key=place, tool_name=NAME, params=Order("o"), result=RECORDED)


CALLERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nobody": ({}, {}),
    "a session": ({"session": Session()}, {}),
    "a run": ({}, {"ctx": RUN}),
    "a session in a run": ({"session": Session()}, {"ctx": RUN}),
}
callers = pytest.mark.parametrize(("made", "called"), CALLERS.values(), ids=CALLERS)


@callers
def test_an_entry_that_a_tool_wrote_is_found_by_its_key(
    ledger: EffectLedger, shop: Shop, made: dict[str, Any], called: dict[str, Any]
) -> None:
    runner(ledger, shop, **made).exec_sync(NAME, ARGS, **called)
    entry = ledger.lookup(key())
    assert entry is not None
    assert (entry.result_message, entry.tool_name, entry.idempotency_key) == ("ordered", NAME, key())
    assert (key() in ledger, len(ledger.slots(key()))) == (True, 1)


@callers
def test_an_entry_that_a_tool_wrote_is_invalidated_by_its_key(
    ledger: EffectLedger, shop: Shop, made: dict[str, Any], called: dict[str, Any]
) -> None:
    calls = runner(ledger, shop, **made)
    calls.exec_sync(NAME, ARGS, **called)
    assert (ledger.invalidate(key()), ledger.invalidate(key())) == (True, False)
    assert (key() in ledger, ledger.lookup(key()), ledger.slots(key())) == (False, None, ())
    assert calls.exec_sync(NAME, ARGS, **called).record.replayed is False
    assert shop.taken == ["o", "o"]


@callers
def test_a_record_takes_the_place_of_what_a_tool_wrote(
    ledger: EffectLedger, shop: Shop, made: dict[str, Any], called: dict[str, Any]
) -> None:
    calls = runner(ledger, shop, **made)
    calls.exec_sync(NAME, ARGS, **called)
    record(ledger, key())
    again = calls.exec_sync(NAME, ARGS, **called)
    assert (again.content, again.record.replayed) == ("by hand\n\n<<o>>", True)
    assert (len(ledger), shop.taken) == (1, ["o"])


@callers
def test_a_record_under_a_key_answers_before_a_tool_has_run(
    ledger: EffectLedger, shop: Shop, made: dict[str, Any], called: dict[str, Any]
) -> None:
    record(ledger, key())
    answer = runner(ledger, shop, **made).exec_sync(NAME, ARGS, **called)
    assert (answer.content, answer.record.replayed, shop.taken) == ("by hand\n\n<<o>>", True, [])
    assert ledger.invalidate(key())
    assert runner(ledger, shop, **made).exec_sync(NAME, ARGS, **called).record.replayed is False


def test_a_doubt_of_a_session_ends_by_a_record_under_its_key(ledger: EffectLedger, shop: Shop) -> None:
    session = Session()
    calls = runner(ledger, shop, session=session)
    slot = LedgerSlot(partition_of(session=str(session.session_id)), NAME, key())
    claim = ledger.claim(slot, params_hash="h", ttl_ns=None, now_ns=0).claimed
    assert claim is not None
    ledger.doubt(claim)
    assert calls.exec_sync(NAME, ARGS).error_code == "unknown_outcome"
    assert (ledger.lookup(key()), ledger.slots(key())) == (None, (slot,))
    record(ledger, key())
    assert calls.exec_sync(NAME, ARGS).content == "by hand\n\n<<o>>"
    assert (shop.taken, ledger.in_doubt()) == ([], ())


def test_a_key_of_two_sessions_is_refused_instead_of_choosing_one(ledger: EffectLedger, shop: Shop) -> None:
    for _ in range(2):
        runner(ledger, shop, session=Session()).exec_sync(NAME, ARGS)
    first, second = slots = ledger.slots(key())
    for use in (ledger.lookup, ledger.invalidate, lambda place: record(ledger, place)):
        with pytest.raises(InvalidValue, match=r"Several sessions or runs .* slots\(key\) lists them") as caught:
            use(key())
        assert caught.value.path == "key"
    assert ledger.slots(key()) == slots
    assert key() in ledger
    assert ledger.lookup(first) != ledger.lookup(second)
    record(ledger, second)
    assert [entry.result_message for slot in slots if (entry := ledger.lookup(slot))] == ["ordered", "by hand"]
    assert ledger.invalidate(first)
    assert ledger.lookup(key()) == ledger.lookup(second)


def test_an_entry_of_a_call_without_a_session_does_not_answer_a_call_with_one(ledger: EffectLedger, shop: Shop) -> None:
    runner(ledger, shop).exec_sync(NAME, ARGS)
    assert runner(ledger, shop, session=Session()).exec_sync(NAME, ARGS).record.replayed is False
    assert shop.taken == ["o", "o"]


def test_a_record_under_a_key_answers_no_tenant(ledger: EffectLedger, shop: Shop) -> None:
    record(ledger, key())
    acme = ToolPolicyContext(run_id="r", tenant="acme")
    calls = runner(ledger, shop, session=Session())
    assert calls.exec_sync(NAME, ARGS, ctx=acme).record.replayed is False
    assert calls.exec_sync(NAME, ARGS, connection_id="c").record.replayed is False
    assert shop.taken == ["o", "o"]


@pytest.mark.parametrize("called", [{"ctx": ToolPolicyContext(tenant="acme")}, {"connection_id": ""}], ids=str)
def test_a_tenants_entry_is_reached_by_its_slot_only(ledger: EffectLedger, shop: Shop, called: dict[str, Any]) -> None:
    calls = runner(ledger, shop)
    calls.exec_sync(NAME, ARGS, **called)
    assert (ledger.lookup(key()), ledger.invalidate(key()), ledger.slots(key())) == (None, False, ())
    assert key() not in ledger
    record(ledger, key())
    assert calls.exec_sync(NAME, ARGS, **called).content == "ordered\n\n<<o>>"


def test_a_record_goes_to_the_partition_that_its_slot_names(ledger: EffectLedger, shop: Shop) -> None:
    session = Session()
    mine = LedgerSlot(partition_of(session=str(session.session_id)), NAME, key())
    record(ledger, mine)
    assert runner(ledger, shop, session=session).exec_sync(NAME, ARGS).record.replayed
    assert not runner(ledger, shop, session=Session()).exec_sync(NAME, ARGS).record.replayed
    assert mine in ledger
    for slot, words in ((mine._replace(key=""), "not empty"), (mine._replace(tool_name="other"), "is of 'other'")):
        with pytest.raises(InvalidValue, match=words):
            record(ledger, slot)


def test_a_record_of_one_tool_leaves_another_tools_entry_alone(ledger: EffectLedger) -> None:
    session = partition_of(session="s")
    record(ledger, LedgerSlot(session, NAME, "k"))
    ledger.record(idempotency_key="k", tool_name="other", params=None, result=ToolResult("m"))
    assert {LedgerSlot("", "other", "k"), LedgerSlot(session, NAME, "k")} == set(ledger.slots("k"))


@pytest.mark.parametrize(
    ("names", "opened"),
    [
        ({}, True),
        ({"session": "s"}, True),
        ({"run": "r"}, True),
        ({"session": '", null'}, True),
        ({"tenant": "t"}, False),
        ({"connection_id": "c"}, False),
        ({"connection_id": ""}, False),
        ({"tenant": "", "connection_id": "null", "session": "s"}, False),
        ({"tenant": '", null, "', "session": "s"}, False),
    ],
)
def test_a_partition_is_open_to_a_key_unless_it_names_a_tenant_or_a_connection(
    names: dict[str, str], opened: bool
) -> None:
    assert is_open(partition_of(**names)) is opened
