"""Answers from the ledger: who gets them, in which form, and what is said of them."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr
from tests.tools.order_shop import NAME, HookedStore, Order, Shop, order_tool, runner_for

from demiurge import SqliteEffectLedger
from demiurge.errors import InvalidValue
from demiurge.sessions import Session
from demiurge.tools import (
    BoundTool,
    EffectLedger,
    IdempotencyConfig,
    InMemoryApprovals,
    LedgerSlot,
    Redaction,
    Tool,
    ToolCallResult,
    ToolContext,
    ToolEffect,
    ToolInvoked,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolSpec,
    ToolValidationError,
    partition_of,
)
from demiurge.tools.ledger.store import MemoryLedgerStore
from demiurge.tools.stages.recall import slot_of
from demiurge.values.clock import FixedClock

ARGS = {"order_id": "o"}


def slots(ledger: EffectLedger) -> list[LedgerSlot]:
    store: Any = ledger._store
    return list(store._done)


def test_an_equal_call_is_answered_without_running(ledger: EffectLedger, shop: Shop) -> None:
    events: list[Any] = []
    runner = runner_for(order_tool(shop.place), ledger, emit=events.append)
    first, second = (runner.exec_sync(NAME, args) for args in (ARGS, '{"amount": 1, "order_id": "o"}'))
    assert shop.taken == ["o"]
    assert (second.ok, second.value, second.content) == (first.ok, first.value, first.content)
    assert [event.replayed for event in events if isinstance(event, ToolCallResult)] == [False, True]
    assert (first.record.replayed, second.record.replayed) == (False, True)
    assert second.record.public()["replayed"] is True
    assert second.tool_call_id != first.tool_call_id


@dataclass
class Card:
    brand: str
    number: str

    def render(self) -> str:
        return f"a card of {self.brand}"


class Base(BaseModel):
    brand: str


class Derived(Base):
    def render(self) -> str:
        return f"derived {self.brand}"


def store_of(kind: str, folder: Path) -> EffectLedger:
    return EffectLedger() if kind == "memory" else SqliteEffectLedger(folder / "ledger.db")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Any, Card("Visa", "canary")),
        (object, Card("Visa", "canary")),
        (list, [Card("Visa", "canary")]),
        (Base, Derived(brand="x")),
        (Any, datetime(2020, 1, 1, tzinfo=UTC)),
        (str, ""),
        (type(None), None),
    ],
)
def test_a_replay_says_word_for_word_what_was_said(store: str, kind: Any, value: Any, tmp_path: Path) -> None:
    """Read back, a value may have lost its own `render()`, and with it what that kept from the model."""

    def give(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        return ToolResult("m", value)

    tool = Tool[Order, kind](name=NAME, description="d", handler=give, idempotency=IdempotencyConfig())
    ledger = store_of(store, tmp_path)
    first, again = (runner_for(tool, ledger).exec_sync(NAME, ARGS) for _ in range(2))
    assert (again.record.replayed, again.content) == (True, first.content)
    assert "canary" not in first.content
    if isinstance(ledger, SqliteEffectLedger):
        ledger.close()


class Name(StrEnum):
    ORDER = NAME
    ID = "call-1"
    SESSION = "session"
    CONNECTION = "conn_1"
    KEY = "key"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("config", [IdempotencyConfig(), IdempotencyConfig("custom", key_fn=lambda order: Name.KEY)])
def test_ids_may_be_members_of_an_enum(store: str, config: IdempotencyConfig, shop: Shop, tmp_path: Path) -> None:
    ledger = store_of(store, tmp_path)
    runner = runner_for(order_tool(shop.place, idempotency=config), ledger)
    enums: dict[str, Any] = {"tool_call_id": Name.ID, "connection_id": Name.CONNECTION}
    enums["ctx"] = ToolContext(session=_Session(Name.SESSION), caller=ToolPolicyContext(tenant=Name.KEY))
    plain = {name: str(value) for name, value in enums.items() if name != "ctx"}
    same = ToolContext(session=_Session("session"), caller=ToolPolicyContext(tenant="key"))
    first = runner.exec_sync(Name.ORDER, ARGS, **enums)
    assert (type(first.record.name), type(first.tool_call_id)) == (str, str)
    assert runner.exec_sync(Name.ORDER, ARGS, **enums).record.replayed
    assert runner.exec_sync(NAME, ARGS, ctx=same, **plain).record.replayed
    assert (shop.taken, ledger.in_doubt(), ledger.clear()) == (["o"], (), 1)
    if isinstance(ledger, SqliteEffectLedger):
        ledger.close()


def test_other_parameters_are_another_call(ledger: EffectLedger, shop: Shop) -> None:
    runner = runner_for(order_tool(shop.place), ledger)
    for order in ("a", "b", "a"):
        runner.exec_sync(NAME, {"order_id": order})
    runner.exec_sync(NAME, {"order_id": "a", "amount": 2})
    assert shop.taken == ["a", "b", "a"]


@pytest.mark.parametrize("options", [{"idempotency": None}, {"idempotency": IdempotencyConfig("none")}, {}])
def test_without_a_config_or_a_ledger_every_call_runs(
    ledger: EffectLedger, shop: Shop, options: dict[str, Any]
) -> None:
    runner = runner_for(order_tool(shop.place, **options), ledger if options else None)
    assert [runner.exec_sync(NAME, ARGS).record.replayed for _ in range(2)] == [False, False]
    assert (shop.taken, len(ledger)) == (["o", "o"], 0)


def test_an_expired_answer_is_none(ledger: EffectLedger, shop: Shop) -> None:
    clock = FixedClock(10**18)
    tool = order_tool(shop.place, idempotency=IdempotencyConfig(ttl=timedelta(seconds=1)))
    runner = runner_for(tool, ledger, clock=clock)
    runner.exec_sync(NAME, ARGS)
    clock.advance(10**9 - 1)
    assert runner.exec_sync(NAME, ARGS).record.replayed
    clock.advance(1)
    assert not runner.exec_sync(NAME, ARGS).record.replayed
    assert shop.taken == ["o", "o"]


@dataclass
class _Session:
    session_id: Any


CALLERS: dict[str, dict[str, Any]] = {
    "session": {"ctx": ToolContext(session=_Session(UUID(int=1)))},
    "other session": {"ctx": ToolContext(session=_Session("2"))},
    "run": {"ctx": ToolPolicyContext(run_id="r1")},
    "run named like a session": {"ctx": ToolPolicyContext(run_id="2")},
    "run with a session without an id": {
        "ctx": ToolContext(session=_Session(""), caller=ToolPolicyContext(run_id="r3"))
    },
    "other run": {"ctx": ToolPolicyContext(run_id="r2")},
    "thing without a session's id": {"ctx": ToolContext(session=object(), caller=ToolPolicyContext(run_id="r4"))},
    "session of a tenant": {"ctx": ToolContext(session=_Session(UUID(int=1)), caller=ToolPolicyContext(tenant="t"))},
    "connection": {"connection_id": "conn_1"},
    "other connection": {"connection_id": "conn_2"},
    "nobody": {},
}
APART_IN_ANY_SCOPE = ["session of a tenant", "connection", "other connection"]


def test_no_session_run_tenant_or_connection_gets_the_answer_of_another(ledger: EffectLedger, shop: Shop) -> None:
    runner = runner_for(order_tool(shop.place), ledger)
    for replayed in (False, True):
        for options in CALLERS.values():
            assert runner.exec_sync(NAME, ARGS, **options).record.replayed is replayed
    assert len(shop.taken) == len(CALLERS)


def test_another_scope_is_one_for_all_sessions_but_not_for_all_tenants(ledger: EffectLedger, shop: Shop) -> None:
    tool = order_tool(shop.place, idempotency=IdempotencyConfig(scope="orders"))
    runner = runner_for(tool, ledger)
    for options in CALLERS.values():
        runner.exec_sync(NAME, ARGS, **options)
    assert len(shop.taken) == 1 + len(APART_IN_ANY_SCOPE)


def test_a_session_gets_its_answers_in_any_run(ledger: EffectLedger, shop: Shop) -> None:
    runner = runner_for(order_tool(shop.place), ledger)
    for run, replayed in (("r1", False), ("r2", True)):
        ctx = ToolContext(session=_Session("s"), caller=ToolPolicyContext(run_id=run))
        assert runner.exec_sync(NAME, ARGS, ctx=ctx).record.replayed is replayed


@pytest.mark.parametrize(
    ("scope", "partition"),
    [
        ("session", partition_of(tenant="t", connection_id="c", session="s")),
        ("orders", partition_of(tenant="t", connection_id="c")),
    ],
)
def test_an_entry_lies_in_the_partition_of_its_tenant_connection_and_session(
    ledger: EffectLedger, shop: Shop, scope: str, partition: str
) -> None:
    caller = ToolPolicyContext(tenant="t", run_id="r")
    runner = runner_for(order_tool(shop.place, idempotency=IdempotencyConfig(scope=scope)), ledger)
    runner.exec_sync(NAME, ARGS, ctx=ToolContext(session=_Session("s"), caller=caller), connection_id="c")
    assert [(slot.partition, slot.tool_name) for slot in slots(ledger)] == [(partition, NAME)]


def test_an_answer_is_looked_up_by_its_slot(ledger: EffectLedger, shop: Shop) -> None:
    runner_for(order_tool(shop.place), ledger).exec_sync(NAME, ARGS, ctx=ToolPolicyContext(run_id="r"))
    (slot,) = slots(ledger)
    assert slot.partition == partition_of(run="r")
    assert slot in ledger
    assert slot.key in ledger, "a key alone reaches every run's"


def test_a_denied_call_gets_no_answer_from_the_ledger(ledger: EffectLedger, shop: Shop) -> None:
    tool = order_tool(shop.place)
    runner_for(tool, ledger).exec_sync(NAME, ARGS)
    denied = runner_for(tool, ledger, policy=ToolPolicy()).exec_sync(NAME, ARGS)
    assert (denied.error_code, denied.record.replayed) == ("policy_denied", False)


def test_nobody_is_asked_to_approve_an_answer(ledger: EffectLedger, shop: Shop) -> None:
    approvals = InMemoryApprovals()
    policy = ToolPolicy((NAME,), require_approval_for_tools=(NAME,))
    runner = runner_for(order_tool(shop.place), ledger, policy=policy, approvals=approvals)
    assert runner.exec_sync(NAME, ARGS, tool_call_id="c1").error_code == "approval_required"
    (request,) = approvals.pending()
    assert request.approval_id is not None
    approvals.approve(request.approval_id, by="anna")
    assert runner.exec_sync(NAME, ARGS, tool_call_id="c1").ok
    again = runner.exec_sync(NAME, ARGS, tool_call_id="c2")
    assert (again.ok, again.record.replayed, again.record.approval_id) == (True, True, None)
    assert approvals.pending() == ()


ASKS = ToolPolicy((NAME,), require_approval_for_tools=(NAME,))


@pytest.mark.parametrize("effect", [ToolEffect.READ_ONLY, ToolEffect.EXTERNAL_SIDE_EFFECT])
@pytest.mark.parametrize("store", [MemoryLedgerStore, HookedStore])
async def test_nobody_is_asked_to_approve_an_answer_that_any_ledger_has(
    store: type[MemoryLedgerStore], effect: ToolEffect, shop: Shop
) -> None:
    ledger, approvals = EffectLedger(store=store()), InMemoryApprovals()
    tool = order_tool(shop.place, effect=effect)
    await runner_for(tool, ledger).exec(NAME, ARGS)
    result = await runner_for(tool, ledger, policy=ASKS, approvals=approvals).exec(NAME, ARGS)
    assert (result.error_code, result.record.replayed, approvals.pending()) == (None, True, ())


@pytest.mark.parametrize("store", [MemoryLedgerStore, HookedStore])
async def test_nobody_is_asked_to_approve_a_call_in_doubt(store: type[MemoryLedgerStore]) -> None:
    def dies(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        raise SystemExit

    ledger, approvals = EffectLedger(store=store()), InMemoryApprovals()
    await runner_for(order_tool(dies), ledger).exec(NAME, ARGS)
    result = await runner_for(order_tool(dies), ledger, policy=ASKS, approvals=approvals).exec(NAME, ARGS)
    assert (result.error_code, approvals.pending()) == ("unknown_outcome", ())


def test_an_answer_without_a_value_has_none_when_it_is_given_again(ledger: EffectLedger) -> None:
    def give(params: Order, *, context: ToolContext) -> ToolResult[str]:
        return ToolResult("nothing to say", None)

    runner = runner_for(Tool[Order, str](NAME, "d", give, idempotency=IdempotencyConfig()), ledger)
    first, again = (runner.exec_sync(NAME, ARGS) for _ in range(2))
    assert (again.error_code, again.record.replayed, again.content) == (None, True, first.content)


@pytest.mark.parametrize("excluded", [False, True])
def test_an_answer_is_published_again_with_all_that_it_had(ledger: EffectLedger, excluded: bool) -> None:
    def give(params: Order, *, context: ToolContext) -> ToolResult[str]:
        return ToolResult("m", "the value", exclude_value_from_context=excluded)

    session = Session(session_id="s")
    tool = Tool[Order, str](NAME, "d", give, idempotency=IdempotencyConfig())
    runner = runner_for(tool, ledger, session=session)
    for _ in range(2):
        runner.exec_sync(NAME, ARGS)
    first, again = session[ToolInvoked].all()
    assert (first.replayed, again.replayed) == (False, True)
    assert again.result == first.result == ToolResult("m", "the value", exclude_value_from_context=excluded)


@pytest.mark.parametrize(
    "config",
    [
        IdempotencyConfig(),
        IdempotencyConfig("params", ("order_id",)),
        IdempotencyConfig("custom", key_fn=lambda order: f"order {order.order_id}"),
    ],
)
@pytest.mark.parametrize("session_id", [None, "s"])
def test_the_place_of_an_entry_can_be_named_without_a_call(
    ledger: EffectLedger, shop: Shop, config: IdempotencyConfig, session_id: str | None
) -> None:
    tool = order_tool(shop.place, idempotency=config)
    caller = ToolPolicyContext(run_id="r", tenant="t")
    context = ToolContext(caller=caller, session=_Session(session_id))
    runner_for(tool, ledger).exec_sync(NAME, ARGS, ctx=context)
    assert slots(ledger) == [slot_of(tool.bound, '{"order_id": "o"}', caller, session_id=session_id)]


def test_the_place_of_another_systems_entry_is_named_by_what_was_sent(ledger: EffectLedger) -> None:
    tool = foreign([], IdempotencyConfig("params", ("b",)))
    runner_for(tool, ledger).exec_sync(NAME, {"a": 1})
    assert slots(ledger) == [slot_of(tool, '{"a": 1}', ToolPolicyContext())]


@pytest.mark.parametrize("idempotency", [None, IdempotencyConfig("none")])
def test_a_call_that_no_ledger_keeps_has_no_place_there(shop: Shop, idempotency: IdempotencyConfig | None) -> None:
    tool = order_tool(shop.place, idempotency=idempotency)
    assert slot_of(tool.bound, "{}", ToolPolicyContext()) is None


@pytest.mark.parametrize("arguments", ["{", "{}", '{"order_id": 7}', '{"order_id": "o", "order_id": "o"}'])
def test_arguments_that_the_tool_does_not_take_have_no_place(shop: Shop, arguments: str) -> None:
    with pytest.raises((InvalidValue, ToolValidationError)):
        slot_of(order_tool(shop.place).bound, arguments, ToolPolicyContext())


def test_a_stored_answer_that_no_longer_fits_its_type_is_not_run_again(ledger: EffectLedger, shop: Shop) -> None:
    runner_for(order_tool(shop.place), ledger).exec_sync(NAME, ARGS)

    def place(params: Order, *, context: ToolContext) -> ToolResult[int]:
        shop.take(params)
        return ToolResult("m", 1)

    tool = Tool[Order, int](name=NAME, description="d", handler=place, idempotency=IdempotencyConfig())
    assert runner_for(tool, ledger).exec_sync(NAME, ARGS).error_code == "output_validation"
    assert shop.taken == ["o"]


def test_a_doubt_is_told_and_not_run(ledger: EffectLedger, shop: Shop) -> None:
    runner = runner_for(order_tool(shop.place), ledger)
    runner.exec_sync(NAME, ARGS)
    (slot,) = slots(ledger)
    ledger.invalidate(slot)
    claim = ledger.claim(slot, params_hash="h", ttl_ns=None, now_ns=0).claimed
    assert claim is not None
    ledger.doubt(claim)
    result = runner.exec_sync(NAME, ARGS)
    assert (result.error_code, result.record.replayed) == ("unknown_outcome", False)
    assert result.safe_message == "It is not known whether this took effect. Check before trying again."
    assert ledger.invalidate(slot)
    assert runner.exec_sync(NAME, ARGS).ok
    assert shop.taken == ["o", "o"]


def test_a_key_function_that_breaks_stops_the_call_and_says_nothing(
    ledger: EffectLedger, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(params: Order) -> str:
        raise ValueError(f"canary {params}")

    wrong: list[Any] = [broken, lambda params: None, lambda params: "\ud800"]
    for key_fn in wrong:
        tool = order_tool(shop.place, idempotency=IdempotencyConfig("custom", key_fn=key_fn))
        result = runner_for(tool, ledger).exec_sync(NAME, ARGS)
        assert (result.error_code, result.safe_message) == ("execution", "The tool failed.")
    assert "canary" not in caplog.text
    assert caplog.records[0].levelno == logging.WARNING
    assert (shop.taken, len(ledger)) == ([], 0)


@dataclass(frozen=True)
class Login:
    user: str
    password: SecretStr
    note: str = ""


def login(params: Login, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("in", params.user)


@pytest.mark.parametrize(
    ("config", "same"),
    [
        (IdempotencyConfig(), False),
        (IdempotencyConfig("params", ("user",)), True),
        (IdempotencyConfig("params", ("password",)), False),
    ],
)
def test_secrets_count_though_their_type_hides_them(
    ledger: EffectLedger, config: IdempotencyConfig, same: bool
) -> None:
    tool = Tool[Login, str](name=NAME, description="d", handler=login, idempotency=config)
    runner = runner_for(tool, ledger)
    first, again = ({"user": "u", "password": password} for password in ("hunter1", "hunter2"))
    assert not runner.exec_sync(NAME, first).record.replayed
    assert runner.exec_sync(NAME, again).record.replayed is same
    assert runner.exec_sync(NAME, first).record.replayed
    assert "hunter" not in repr([(slot, ledger.lookup(slot)) for slot in slots(ledger)])


def foreign(seen: list[Any], config: IdempotencyConfig) -> BoundTool:
    """A tool of another system: its parameters are JSON, and it has no types."""

    def call(params: Any, context: ToolContext) -> ToolResult[Any]:
        seen.append(params)
        return ToolResult("m", {"n": len(seen)})

    schema = {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "integer"}}}
    return BoundTool(
        spec=ToolSpec(NAME, "d", schema, ToolEffect.EXTERNAL_SIDE_EFFECT, Redaction.message_only()),
        parse=json.loads,
        call=call,
        dump=lambda value: json.dumps(value).encode(),
        load=json.loads,
        idempotency=config,
    )


def unwritable(params: Any) -> Any:
    raise ToolValidationError("canary")


@pytest.mark.parametrize("config", [IdempotencyConfig(), IdempotencyConfig("params", ("order_id",))])
def test_parameters_that_can_not_be_written_count_as_they_were_sent(
    ledger: EffectLedger, shop: Shop, config: IdempotencyConfig
) -> None:
    tool = replace(order_tool(shop.place, idempotency=config).bound, dump_params=unwritable)
    runner = runner_for(tool, ledger)
    sent = ({"order_id": "a"}, {"order_id": "a"}, {"order_id": "a", "amount": 1}, {"order_id": "b"})
    answers = [runner.exec_sync(NAME, args) for args in sent]
    assert [(answer.error_code, answer.record.replayed) for answer in answers] == [
        (None, False),
        (None, True),
        (None, False),
        (None, False),
    ]


@pytest.mark.parametrize(("names", "ran"), [((), 3), (("a",), 2), (("b",), 3)])
def test_a_tool_of_another_system_has_keys_too(ledger: EffectLedger, names: tuple[str, ...], ran: int) -> None:
    """Where a field that makes the key isn't given, all arguments make it."""
    seen: list[Any] = []
    config = IdempotencyConfig("params", names) if names else IdempotencyConfig()
    runner = runner_for(foreign(seen, config), ledger)
    for args in ({"a": 1, "c": 1}, {"a": 1, "c": 2}, {"a": 2, "c": 1}) * 2:
        assert runner.exec_sync(NAME, args).ok
    assert len(seen) == ran
