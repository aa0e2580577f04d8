"""Replay or die on a failing machine: the power is cut, the disk is full or broken, at any point that a world passes.

A process that dies is thrown away as it is: nothing that it would have written later is written, nobody closes
anything, and the next one opens the store anew. What outlives them all is what people and the outside have seen.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.recomputed_stores import assert_replay_agrees
from tests.world.small_world import (
    BOARD,
    MAIN,
    SECOND,
    START_NS,
    SYSTEM,
    A,
    ChatClient,
    EchoAdapter,
    chat_adapters,
    echo_result,
    poke_event,
    running_host,
    small_manifest,
    stored_records,
)
from tests.world.unit_strategies import ACTIONS, MANIFESTS, TURNS, Conversation, HeldEcho, apply_action

from demiurge import faults
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores import Attempt, MemoryStore, SqliteStore, Store
from demiurge.values.caller import Caller
from demiurge.values.clock import FixedClock, SeededEntropy
from demiurge.world.effect import Adapter, EffectCall, Result
from demiurge.world.host import Accepted, Host
from demiurge.world.host import units as host_units
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

HOST_POINTS = (
    "unit.advanced",
    "unit.committed",
    "unit.acknowledged",
    "outbox.before_delivery",
    "effect.before_attempt",
    "effect.attempted",
    "effect.performed",
    "effect.received",
)
TOOL_POINTS = ("tool.ran", "request.taken", "request.answered")
STORE_POINTS = (
    "journal.before_rows",
    "journal.before_commit",
    "journal.after_commit",
    "attempts.before_commit",
    "attempts.after_commit",
    "blob.before_commit",
    "blob.after_commit",
    "blob.before_write",
    "blob.half_written",
    "blob.before_fsync",
    "blob.before_rename",
    "blob.after_rename",
    "store.before_checkpoint",
    "store.after_checkpoint",
)

GUARDED = ("append", "put_blobs", "put_blob")


class Cut(KeyboardInterrupt):
    """The power is cut: the one kind of exception that ends an event loop there and then."""


@dataclass(frozen=True)
class Life:
    """One process: what goes wrong (point, action, hit, from then on), what it does, and whether it is closed."""

    manifest: str = "same"
    fault: tuple[str, str, int, bool] | None = None
    actions: Sequence[tuple[Any, ...]] = ()
    closes: bool = True

    def armed(self) -> dict[str, faults.Fault]:
        if self.fault is None:
            return {}
        point, action, hit, onwards = self.fault
        return {point: faults.Fault(Cut if action == "cut" else action, hit, onwards)}


@dataclass
class Witness:
    """What was seen from outside."""

    begun: Counter[bytes] = field(default_factory=Counter)
    """How often the deed of an intent was done."""
    answered: dict[bytes, Result] = field(default_factory=dict)
    sent: dict[str, str] = field(default_factory=dict)
    """Every event that somebody tried to send, by its idempotency key."""
    acknowledged: dict[str, Accepted] = field(default_factory=dict)


class Outside(HeldEcho):
    """A deed is done when it is asked for and answered when the test says so, or at once when nothing is held. The
    answer to `y` has a blob that is a file of its own."""

    def __init__(self, witness: Witness, *, holds: bool = True) -> None:
        super().__init__()
        self.witness, self.holds = witness, holds

    async def perform(self, call: EffectCall) -> Result:
        intent = call.intent
        self.witness.begun[intent.id] += 1
        result = await super().perform(call) if self.holds else echo_result("at last")
        if intent.params["text"] == "y" and result == echo_result("fine"):
            ref = await call.put_blob(intent.id * 1000)
            result = {**result, "payload": {**result["payload"], "blob": ref}}
        self.witness.answered[intent.id] = result
        return result


class Machine:
    """The store and the processes that work on it, one after the other. `open_store` is what a new process does."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self.witness = Witness()
        self.lives = 0
        self.is_cut = False

    def live(self, life: Life) -> int:
        """How often the fault's point was passed. What is there after it is a history."""
        store, runner, hits = self._open(), asyncio.Runner(), 0
        self._guard(store)
        host = self._host(store, self.manifest(life), self.adapters(life))
        try:
            with faults.armed(life.armed()), suppress(Cut, DemiurgeError, OSError):
                try:
                    runner.run(self._work(host, life))
                    if life.closes and not self.is_cut:
                        runner.run(host.close())
                        self._close(store)
                finally:
                    assert faults._armed is not None
                    hits = sum(faults._armed._hits.values())
        finally:
            self._throw_away(host, store, runner)
        after = self._open()
        assert_replay_agrees(after, self.manifest(life))
        self._close(after)
        return hits

    def manifest(self, life: Life) -> Manifest:
        return MANIFESTS[life.manifest]

    def adapters(self, life: Life) -> Sequence[Adapter]:
        return [Outside(self.witness)]

    def _close(self, store: Store) -> None:
        """A world in memory lasts only as long as it is open."""
        if isinstance(store, SqliteStore):
            store.close()

    def _host(self, store: Store, manifest: Manifest, adapters: Sequence[Adapter]) -> Host:
        self.lives, self.is_cut = self.lives + 1, False
        beginning = START_NS + 3600 * SECOND * self.lives
        clock, entropy = FixedClock(beginning, 1_000_000), SeededEntropy(beginning)
        return Host(store, manifest, adapters, clock=clock, entropy=entropy, tail_bytes=700)

    def _guard(self, store: Store) -> None:
        """See to it that nothing gets to the disk once the power is cut."""

        def guarded(work: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                if self.is_cut:
                    raise Cut
                try:
                    return work(*args, **kwargs)
                except Cut:
                    self.is_cut = True
                    raise

            return run

        for name in GUARDED:
            vars(store)[name] = guarded(getattr(type(store), name).__get__(store))

    def _throw_away(self, host: Host, store: Store, runner: asyncio.Runner) -> None:
        """As the system does it with the remains of a process."""
        runner.get_loop().set_exception_handler(lambda _loop, _context: None)
        self.is_cut = host._dispatcher.closing = True
        host._committer._thread.shutdown()
        host._committer._is_closed = True
        host._committer._pending.clear()
        with suppress(Cut, RuntimeError):  # the loop was stopped in the middle
            runner.close()
        if isinstance(store, SqliteStore):
            store._db.close(tidy=False)
            store._lock.release()
        for name in GUARDED:
            del vars(store)[name]

    async def _work(self, host: Host, life: Life) -> None:
        [outside] = host._dispatcher._adapters.values()
        assert isinstance(outside, Outside)
        await host.start()
        answered: list[OpenIntent] = []
        for action in life.actions:
            with suppress(DemiurgeError, OSError):  # whoever asked is told
                await (
                    self._send(host, action[1])
                    if action[0] == "poke"
                    else apply_action(host, outside, action, answered)
                )
            if self.is_cut:
                return
            for _ in range(3):
                await asyncio.sleep(0)

    async def _send(self, host: Host, what: str) -> None:
        key = str(len(self.witness.sent))
        self.witness.sent[key] = what
        self.witness.acknowledged[key] = await host.submit("ex/Ev@1", poke_event(what), idempotency_key=key)

    def finish(self) -> None:
        """A last process that nothing happens to: all that is open comes to an end, and nothing is amiss."""
        store = self._open()

        async def work() -> None:
            host = self._host(store, self.manifest(Life()), [Outside(self.witness, holds=False)])
            await host.start()
            for key, what in self.witness.sent.items():
                accepted = await host.submit("ex/Ev@1", poke_event(what), idempotency_key=key)
                assert self.witness.acknowledged.setdefault(key, accepted) == accepted
            await host.settle()
            assert not host.state(A).is_open
            notes = host.state(Unit(BOARD, "b")).cell
            await host.close()
            said = [what.partition(":")[2] for what in self.witness.sent.values() if what.startswith("post:")]
            told = [note for text in said for note in text.split(",")]
            assert sorted(notes["notes"] if notes is not None else []) == sorted(told), "a message is delivered once"

        asyncio.run(work())
        assert_replay_agrees(store, MANIFESTS["same"])
        self._assert_each_once(store)
        self._close(store)

    def _assert_each_once(self, store: Store) -> None:
        for key, accepted in self.witness.acknowledged.items():
            [record] = [r for r in stored_records(store) if (str(r.unit), r.unit_seq) == accepted[:2]]
            assert record.body["value"]["$value"]["what"] == self.witness.sent[key]
        taken = [row.ingress_id for row in store.read(str(A)) if row.ingress_id is not None]
        assert sorted(i for i in taken if i.startswith("key:")) == sorted(
            f'key:["user", "", "{key}"]' for key in self.witness.sent
        )
        intents = {r.body["id"]: r.body for r in stored_records(store) if r.kind == "intent"}
        receipts = [r.body for r in stored_records(store) if r.kind == "receipt"]
        assert sorted(r["intent"] for r in receipts) == sorted(intents), "an intent has one receipt"
        for receipt in receipts:
            if intents[receipt["intent"]]["params"]["text"].startswith("!"):
                self._assert_done_once(receipt)

    def _assert_done_once(self, receipt: Mapping[str, Any]) -> None:
        """Of a deed that can't be repeated."""
        begun, answer = self.witness.begun[receipt["intent"]], self.witness.answered.get(receipt["intent"])
        assert begun <= 1
        code = receipt["payload"].get("code")
        if receipt["status"] == "ok" or code in ("gone", "receipt_invalid"):
            assert answer is not None
        elif code != "unknown_outcome":
            assert begun == 0, "what may have been done is in doubt"


class ChatMachine(Machine):
    """The same with a chat whose model proposes what the test says, and whose tools remember that they ran."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        super().__init__(open_store)
        self.chat = Conversation()
        store = open_store()
        store.put_blob(SYSTEM)
        self._close(store)

    def manifest(self, life: Life) -> Manifest:
        return self.chat.manifest

    def adapters(self, life: Life) -> Sequence[Adapter]:
        return chat_adapters(self.chat.model, self.chat.tools)

    async def _work(self, host: Host, life: Life) -> None:
        await host.start()
        for action in [("go on",), *life.actions]:
            with suppress(DemiurgeError, OSError):
                await host.settle()
                if host.store.head(str(MAIN)) is None:
                    await ChatClient(host).create()
                await self.chat.play(ChatClient(host), action)
            if self.is_cut:
                return

    def finish(self) -> None:
        self.live(Life(actions=[("decide", False)] * 3))
        ran = [line for line in self.chat.ran if not line.startswith("read ")]
        assert len(ran) == len(set(ran)), "no call that changes something ran twice"
        store = self._open()
        ended = {}
        for record in stored_records(store):
            if record.kind == "receipt" and "tool_call_id" in record.body["payload"]:
                ended[record.body["payload"]["tool_call_id"]] = record.body["payload"]["error_code"]
        for name, number in map(str.split, ran):
            assert name != "denied"
            answers = (None, "unknown_outcome") if name != "breaks" else ("execution", "unknown_outcome")
            assert ended.get(f"c{number}", "unknown_outcome") in answers
        assert not any(head.open for head in store.heads())
        self._close(store)


def run_lives(machine: Machine, lives: Sequence[Life]) -> int:
    """How often the faults' points were passed."""
    hits = sum([machine.live(life) for life in lives])
    machine.finish()
    return hits


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing does not wait for an answer that never comes."""
    monkeypatch.setattr(host_units, "GRACE_S", 0.0)


def in_memory(lives: Sequence[Life], kind: type[Machine] = Machine) -> int:
    store = MemoryStore("world_1")
    return run_lives(kind(lambda: store), lives)


def on_disk(lives: Sequence[Life], kind: type[Machine] = Machine) -> int:
    folder = Path(tempfile.mkdtemp()) / "w"
    try:
        SqliteStore.create(folder, "world_1").close()
        return run_lives(kind(lambda: SqliteStore.open(folder)), lives)
    finally:
        shutil.rmtree(folder.parent)


# -- each point for sure ----------------------------------------------------------------------------------------------

DAY: Sequence[tuple[Any, ...]] = (
    ("poke", "ask:x,!z,y"),
    ("poke", "post:n,m"),
    ("answer", "ok", True),
    ("answer", "ok", False),
    ("duplicate", False),
    ("poke", "ask:!z,y"),
    ("cancel",),
    ("poke", "ask:!z,y"),
    ("answer", "error", False),
    ("answer", "ok", True),
    ("poke", "fail:x"),
)


@pytest.mark.parametrize("point", [*HOST_POINTS, *STORE_POINTS])
def test_a_fault_at_a_point_loses_and_doubles_nothing(point: str) -> None:
    lived = [Life("same", (point, action, hit, False), DAY) for action, hit in (("cut", 1), ("eio", 2), ("cut", 3))]
    assert on_disk([*lived, Life("denying", None, DAY)])


TALK: Sequence[tuple[Any, ...]] = (
    ("say", [["read", "change", "workspace__list"], ["breaks", "asked"]]),
    ("decide", True),
    ("say", [["workspace__list", "change"]]),
)


@pytest.mark.parametrize("point", [*HOST_POINTS, *TOOL_POINTS])
def test_a_fault_at_a_point_of_a_chat_loses_and_doubles_nothing(point: str) -> None:
    lived = [Life("same", (point, action, hit, False), TALK) for action, hit in (("cut", 1), ("eio", 1), ("cut", 2))]
    assert in_memory([*lived, Life(actions=TALK)], ChatMachine) or point == "outbox.before_delivery"


async def test_a_cancelled_effect_is_not_begun_if_the_write_of_the_cancellation_seemed_to_fail(store: Store) -> None:
    """What is in memory after a write that seemed to fail may be older than what is durable."""
    async with running_host(store, small_manifest(), [], perform=False) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
    echo = EchoAdapter()
    async with running_host(store, small_manifest(), [echo]) as host:
        with faults.armed({"unit.committed": "eio@1"}), pytest.raises(DemiurgeError):
            await host.cancel(A, reason="enough", caller=Caller("user"))
        await host.submit("ex/Ev@1", poke_event("hello"))
        await host.settle()
    assert [r.body["payload"]["code"] for r in stored_records(store) if r.kind == "receipt"] == ["cancelled"]
    assert echo.performed == []


@pytest.mark.parametrize("turns", range(4))
async def test_an_effect_being_cancelled_is_not_begun_by_an_event_that_arrives_meanwhile(
    store: Store, turns: int
) -> None:
    async with running_host(store, small_manifest(), [], perform=False) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x,y"))
    echo = EchoAdapter()

    async def come() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await host.submit("ex/Ev@1", poke_event("hello"))

    async with running_host(store, small_manifest(), [echo]) as host:
        await asyncio.gather(host.cancel(A, reason="enough", caller=Caller("user")), come())
        await host.settle()
    assert [r.body["payload"]["code"] for r in stored_records(store) if r.kind == "receipt"] == ["cancelled"] * 2
    assert echo.performed == []


@pytest.mark.parametrize("point", ["effect.before_attempt", "unit.acknowledged"])
async def test_an_effect_that_could_not_be_resumed_is_resumed_later(
    store: Store, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when a process begins nor after a fault."""
    async with running_host(store, small_manifest(), [], perform=False) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
    echo = EchoAdapter()
    async with running_host(store, small_manifest(), [echo]) as host:
        with monkeypatch.context() as patch:
            patch.setattr(store, "attempts", raise_disk_error)
            with pytest.raises(Unavailable):
                await host.settle()
        with faults.armed({point: "eio"}), pytest.raises(DemiurgeError):
            await host.settle()
        with monkeypatch.context() as patch:
            patch.setattr(store, "attempts", raise_disk_error)
            with pytest.raises(Unavailable):
                await host.settle()
        await host.settle()
        assert not host.state(A).is_open
    assert echo.performed == ["x"]


def raise_disk_error(_intents: object) -> dict[bytes, Attempt]:
    raise Unavailable("The disk has failed.", code="disk_error")


# -- any of them at any time ------------------------------------------------------------------------------------------


def fault_strategy(points: Sequence[str]) -> st.SearchStrategy[tuple[str, str, int, bool]]:
    actions = st.sampled_from(["cut", "cut", "enospc", "eio"])
    return st.tuples(st.sampled_from(points), actions, st.integers(1, 8), st.booleans())


def life_strategy(
    points: Sequence[str], actions: st.SearchStrategy[tuple[Any, ...]] = ACTIONS, most: int = 8
) -> st.SearchStrategy[list[Life]]:
    doing = st.lists(actions.filter(lambda action: action[0] != "restart"), max_size=most)
    life = st.builds(Life, st.sampled_from(sorted(MANIFESTS)), st.none() | fault_strategy(points), doing, st.booleans())
    return st.lists(life, min_size=1, max_size=4)


@settings(max_examples=40)
@given(life_strategy(HOST_POINTS))
def test_replay_or_die_in_memory(lived: list[Life]) -> None:
    in_memory(lived)


@settings(max_examples=25)
@given(life_strategy([*HOST_POINTS, *STORE_POINTS]))
def test_replay_or_die_on_disk(lived: list[Life]) -> None:
    on_disk(lived)


@settings(max_examples=15)
@given(life_strategy([*HOST_POINTS, *TOOL_POINTS], TURNS, 4))
def test_a_chat_replays_or_dies(lived: list[Life]) -> None:
    in_memory(lived, ChatMachine)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=300)
@given(life_strategy([*HOST_POINTS, *STORE_POINTS, *TOOL_POINTS], TURNS))
def test_a_chat_replays_or_dies_many_times(lived: list[Life]) -> None:
    on_disk(lived, ChatMachine)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=500)
@given(life_strategy([*HOST_POINTS, *STORE_POINTS]), st.booleans())
def test_replay_or_die_many_times(lived: list[Life], stays: bool) -> None:
    (on_disk if stays else in_memory)(lived)
