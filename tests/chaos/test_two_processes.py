"""Two processes and one world: whoever comes second is served by the first, and carries on when that one dies."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.chaos.child_control import Nursery, Process
from tests.chaos.killed_agent import CHATS, NEVER_TWICE, open_world
from tests.chaos.outside_observer import Outside
from tests.chaos.world_checks import Ledger, assert_all_turns_answered, assert_nothing_lost

from demiurge.errors import Conflict

TURNS = 4
SPOKEN = {"owner_gone", "owned", "closing"}
"""What a client may be told when its owner dies."""


def until_told(process: Process, kind: str) -> None:
    deadline = time.monotonic() + 30
    while not process.told(kind):
        assert time.monotonic() < deadline, (kind, process.told(), process.complaints)
        time.sleep(0.002)


def finish(ledger: Ledger, nursery: Nursery, turns: int = TURNS) -> None:
    process = nursery.start(ledger.folder, ledger.outside.url, seed=ledger.seed, turns=turns)
    assert process.wait() == 0, process.complaints
    ledger.hear(process)
    assert_all_turns_answered(ledger, turns, CHATS)


def hear_client(ledger: Ledger, process: Process) -> int:
    """A client ended well, or with one sentence about its owner."""
    status = process.wait()
    ledger.hear(process)
    if status:
        (error,) = {(line["code"], line["message"]) for line in process.told("error")}
        assert status == 1
        assert error[0] in SPOKEN, error
    return status


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(1, 7))
def test_a_client_whose_owner_is_killed_is_told_so_and_nothing_is_lost(
    seed: int, nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    """Each speaks in chats of its own; the owner dies at about its n-th request to the model."""
    ledger = Ledger(tmp_path / "world", outside, seed)
    owner = nursery.start(ledger.folder, outside.url, seed=seed, turns=TURNS, chats=("anna",), linger=True)
    until_told(owner, "open")
    left = threading.Semaphore(seed * 2)

    def watch(what: str, stage: str) -> None:
        if (what, stage) == ("model", "arrived") and not left.acquire(blocking=False):
            owner.kill()

    outside.watch = watch
    client = nursery.start(ledger.folder, outside.url, seed=seed, turns=TURNS, chats=("ben", "cleo"))
    assert owner.wait() == -signal.SIGKILL
    ledger.hear(owner)
    hear_client(ledger, client)
    outside.watch = lambda _what, _stage: None
    assert_nothing_lost(ledger)
    finish(ledger, nursery)


def test_processes_that_race_to_make_a_world_and_talk_in_it_share_it(
    nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "world", outside, 9)
    started = [nursery.start(ledger.folder, outside.url, seed=9, turns=TURNS, chats=(chat,)) for chat in CHATS]
    for process in started:
        hear_client(ledger, process)
    kinds = Counter(line["owner"] for process in started for line in process.told("open"))
    assert kinds["Embedded"] >= 1
    finish(ledger, nursery)


def test_two_processes_in_one_chat_take_turns(nursery: Nursery, outside: Outside, tmp_path: Path) -> None:
    """Both speak in the same chats; a message is taken whole or refused, and no call is made twice."""
    ledger = Ledger(tmp_path / "world", outside, 11)
    owner = nursery.start(ledger.folder, outside.url, seed=11, turns=TURNS, linger=True)
    until_told(owner, "open")
    client = nursery.start(ledger.folder, outside.url, seed=11, turns=TURNS)
    assert client.wait() in (0, 1)
    until_told(owner, "finished")
    owner.kill()
    assert owner.wait() == -signal.SIGKILL
    for process in (owner, client):
        ledger.hear(process)
        refused = {line["code"] for line in process.told("error")} | {line["code"] for line in process.told("sent")}
        assert refused <= {None, "invalid_request", "request_stale", "chat_busy", "not_found"}
    assert not assert_nothing_lost(ledger)
    assert ledger.figures.lost == 0
    assert outside.wrong == []
    for tool in NEVER_TWICE:
        made = Counter(seen.body["tool_call_id"] for seen in outside.of(tool))
        assert set(made.values()) <= {1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("seed", [21, 22])
def test_an_owner_that_is_asked_to_stop_in_a_turn_loses_nothing(
    number: int, seed: int, nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "world", outside, seed)
    for what in ("model", "charge", "book"):
        process = nursery.start(ledger.folder, outside.url, seed=seed, turns=TURNS)
        once = threading.Lock()

        def watch(seen: str, _stage: str, what: str = what, once: threading.Lock = once) -> None:
            if seen == what and once.acquire(blocking=False):
                process.kill(number)  # noqa: B023 - each is waited for before the next

        outside.watch = watch
        status = process.wait()
        ledger.hear(process)
        assert status in (0, -signal.SIGTERM if number == signal.SIGTERM else 130)
        assert_nothing_lost(ledger)
    outside.watch = lambda _what, _stage: None
    finish(ledger, nursery)


def test_a_client_that_is_interrupted_stops_at_once_and_its_turn_goes_on(
    nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "world", outside, 31)
    owner = nursery.start(ledger.folder, outside.url, seed=31, turns=0, linger=True)
    until_told(owner, "finished")
    held, arrived, gave_up = threading.Event(), threading.Event(), threading.Event()

    def watch(what: str, stage: str) -> None:
        if (what, stage) == ("model", "arrived"):
            arrived.set()
            if not held.wait(20):
                gave_up.set()

    outside.watch = watch
    client = nursery.start(ledger.folder, outside.url, seed=31, turns=TURNS, chats=("anna",))
    assert arrived.wait(20)
    client.kill(signal.SIGINT)
    try:
        assert client.wait() == 130  # while the owner still waits for the model
        assert not gave_up.is_set()
    finally:
        held.set()
    ledger.hear(client)
    owner.kill(signal.SIGINT)
    assert owner.wait() == 130
    ledger.hear(owner)
    finish(ledger, nursery)


async def test_a_decision_that_the_owner_took_and_did_not_answer_is_taken_once(
    nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    """The client opens the world itself, asks again, and hears that it is so."""
    outside.pause_s = 0.0
    folder = tmp_path / "world"
    said = json.dumps({"rounds": [[["refund", {"order": "one"}]]], "say": "so be it"})
    async with open_world(folder, outside.url) as world:
        (approval,) = (await world.chat("anna").send(said)).approvals
    fault = "unit.acknowledged=kill@1"
    owner = nursery.start(folder, outside.url, turns=0, chats=("ben",), linger=True, faults=fault)
    await asyncio.to_thread(until_told, owner, "finished")
    async with open_world(folder, outside.url) as world:
        await world.decide(approval, approve=True)
        await world.decide(approval, approve=True)
        with pytest.raises(Conflict, match="already decided"):
            await world.decide(approval, approve=False)
        await world.chat("anna").resume()
        assert (await world.chat("anna").reply()).status == "done"
    assert owner.wait() == -signal.SIGKILL
    assert outside.done("refund") == {"one": 1}
