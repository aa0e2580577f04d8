"""What must be true of a world however its processes died: asked of its journal, and of the outside."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.child_control import Process
from tests.chaos.killed_agent import NEVER_TWICE, open_world, script
from tests.chaos.outside_observer import Outside

from demiurge.bootstrap import World
from demiurge.values.refs import ref_from_digest
from demiurge.world.host.dispatch import GAVE_UP
from demiurge.world.record import Record
from demiurge.world.routing import event_digest
from demiurge.world.unit import Unit

__all__ = ["Figures", "Ledger", "assert_all_turns_answered", "assert_nothing_lost"]

CHAT_UNIT = "demiurge/Demiurge@1/"


@dataclass
class Figures:
    """What a run of kills came to."""

    kills: int = 0
    kills_in_a_turn: int = 0
    turns: int = 0
    failed_turns: int = 0
    given_up: int = 0
    acknowledged: int = 0
    lost: int = 0
    tool_calls: int = 0
    done_outside: int = 0
    doubled: int = 0
    in_doubt: int = 0
    in_doubt_but_done: int = 0
    reconciled: int = 0
    model_requests: int = 0
    retried_model_requests: int = 0

    def add(self, other: Figures) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in vars(self).items())


@dataclass
class Ledger:
    """A world under test: where it is, and everything that was acknowledged to anybody."""

    folder: Path
    outside: Outside
    seed: int
    told: list[dict[str, Any]] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)

    def hear(self, process: Process) -> None:
        """Take down what a process told before it ended; it must not have complained."""
        assert process.complaints == "", process.complaints
        self.told += process.told()


def assert_nothing_lost(ledger: Ledger) -> bool:
    """The journal is whole, replays, and holds everything acknowledged; whether a turn is open."""
    world = open_world(ledger.folder, ledger.outside.url)
    try:
        verified = world.journal.verify()
        assert verified.problem is None, verified.problem
        asyncio.run(world.replay())
        _holds_all_acknowledged(world, ledger)
        _lists_what_waits(world)
        is_open = any(head.open for head in _store(world).heads())
        ledger.figures.kills_in_a_turn += is_open
        return is_open
    finally:
        asyncio.run(world.close())


def _store(world: World) -> Any:
    return world.backend.state.store  # type: ignore[attr-defined]  # this process owns the world


def _lists_what_waits(world: World) -> None:
    """The list of what waits for a person is what the records say."""
    waiting: dict[bytes, str] = {}
    for record in world.journal.read():
        if record.kind == "intent" and "approval" in record.body:
            waiting[record.body["id"]] = record.unit
        elif record.kind in ("approval", "receipt"):
            waiting.pop(record.body["intent"], None)
    assert _store(world).waiting.read() == waiting


def _holds_all_acknowledged(world: World, ledger: Ledger) -> None:
    """Each event lies where its sender was told, and says what was sent."""
    records = {(record.unit, record.unit_seq): record for record in _all(world)}
    decided = {record.body["intent"].hex() for record in records.values() if record.kind == "approval"}
    for line in ledger.told:
        if line["kind"] == "ack":
            ledger.figures.lost += _event_hash(records.get((line["unit"], line["seq"]))) != line["event_hash"]
        if line["kind"] == "decided":
            ledger.figures.lost += line["id"] not in decided
    assert ledger.figures.lost == 0


def _event_hash(record: Record | None) -> str | None:
    if record is None or record.kind != "event":
        return None
    key = Unit.parse(record.unit).key
    return ref_from_digest(event_digest(record.body["schema"], record.body["value"], key))


def _all(world: World) -> list[Record]:
    return list(world.journal.read())


def assert_all_turns_answered(ledger: Ledger, turns: int, chats: Sequence[str]) -> None:
    """Every turn of every chat is over, and the outside saw what the journal says."""
    assert_nothing_lost(ledger)
    outside, figures = ledger.outside, ledger.figures
    outside.quiet()
    assert outside.wrong == []
    world = open_world(ledger.folder, outside.url)
    try:
        records = _all(world)
        _model_was_asked_under_its_intents(records, outside, figures)
        figures.acknowledged = sum(line["kind"] in ("ack", "decided") for line in ledger.told)
        for chat in chats:
            _check_chat(world, chat, ledger, turns)
        _only_journaled_calls_were_made(records, outside)
        for tool in NEVER_TWICE:
            done = outside.done(tool)
            figures.done_outside += done.total()
            figures.doubled += sum(count - 1 for count in done.values())
        assert figures.doubled == 0
    finally:
        asyncio.run(world.close())


def _model_was_asked_under_its_intents(records: Sequence[Record], outside: Outside, figures: Figures) -> None:
    """Each request is that of a durable intent; a repeated one has the same key and says the same."""
    asked: dict[str, list[Any]] = {}
    for seen in outside.of("model"):
        asked.setdefault(seen.key, []).append(seen.body)
    intents = {r.body["id"].hex() for r in records if r.kind == "intent" and r.body["kind"] == "llm.generate"}
    assert set(asked) == intents
    for bodies in asked.values():
        assert all(body == bodies[0] for body in bodies)
        figures.model_requests += 1
        figures.retried_model_requests += len(bodies) - 1


def _only_journaled_calls_were_made(records: Sequence[Record], outside: Outside) -> None:
    """What reached the outside was a durable intent first."""
    intents = {
        r.body["params"]["tool_call_id"] for r in records if r.kind == "intent" and r.body["kind"] == "tool.call"
    }
    for tool in NEVER_TWICE:
        assert {seen.body["tool_call_id"] for seen in outside.of(tool)} <= intents


def _check_chat(world: World, chat: str, ledger: Ledger, turns: int) -> None:
    """Every turn took place, in order, is over, and has one true answer for each call."""
    figures = ledger.figures
    state = asyncio.run(world.chat(chat).state())
    assert state is not None
    assert state["last_request_id"] == turns
    assert state["turn"]["status"] in ("done", "failed")
    by_turn: dict[int, list[dict[str, Any]]] = {}
    for message in state["messages"]:
        body = json.loads(world.blobs.get(message["message_ref"]))
        by_turn.setdefault(message["request_id"], []).append({**message, "body": body})
    assert list(by_turn) == list(range(1, turns + 1))
    failures = _failures(world, chat)
    for turn, messages in by_turn.items():
        said = script(ledger.seed, chat, turn)
        assert messages[0]["body"]["content"][0]["text"] == said
        refused, given_up = "status" in json.loads(said), failures.get(turn) == "gave_up"
        assert given_up or (failures.get(turn) is not None) == refused, failures.get(turn)
        assert len(messages) > 1 or refused or given_up
        figures.turns += 1
        figures.failed_turns += refused
        figures.given_up += given_up
        _check_turn(ledger, json.loads(said), messages, refused=refused, given_up=given_up)


def _failures(world: World, chat: str) -> dict[int, str]:
    """The codes of the turns that failed, by turn."""
    found = {}
    for record in world.journal.read(CHAT_UNIT + chat):
        value = record.body.get("value") if record.kind == "event" else None
        if isinstance(value, dict) and value.get("$tag") == "ChatFailed":
            found[value["$value"]["request_id"]] = value["$value"]["code"]
    return found


def _check_turn(
    ledger: Ledger, said: dict[str, Any], messages: list[dict[str, Any]], *, refused: bool, given_up: bool
) -> None:
    """`given_up`: its process died eight times under one request, which was then asked no more."""
    proposed: dict[str, tuple[str, dict[str, Any]]] = {}
    for message in messages:
        for call in message["body"].get("tool_calls", ()):
            proposed[call["id"]] = (call["name"], json.loads(call["arguments_json"]))
    wanted = [] if refused else [call for together in said["rounds"] for call in together]
    assert [list(call) for call in proposed.values()] == wanted[: len(proposed) if given_up else None]
    answers = Counter(m["body"]["tool_call_id"] for m in messages if m["role"] == "tool")
    assert answers == Counter(list(proposed))
    if not refused and not given_up:
        assert messages[-1]["role"] == "assistant"
        assert messages[-1]["body"]["content"][0]["text"] == said["say"]
    for message in messages:
        if message["role"] == "tool":
            _check_answer(ledger, *proposed[message["body"]["tool_call_id"]], message)


def _check_answer(ledger: Ledger, tool: str, arguments: dict[str, Any], message: dict[str, Any]) -> None:
    """What the model was told of a call is what happened, or that nobody knows."""
    figures, outside = ledger.figures, ledger.outside
    figures.tool_calls += 1
    text, outcome = message["body"]["content"], message["tool"]
    if not outcome["ok"]:
        assert json.loads(text)["error_code"] == outcome["error_code"]
    if tool == "workspace__write":
        assert outcome["ok"], text  # what it asked for is on record, so a crash leaves no doubt
        figures.in_doubt += not outcome["ok"]
        return
    order = arguments["order"]
    if tool == "count":
        if outcome["message"] == GAVE_UP["payload"]["message"]:  # the kills happened to strike this call eight times
            assert not outcome["ok"]
            return
        assert text.startswith("counted ")
        assert text.endswith(f"for {order}")
        return
    done = outside.done(tool)[order]
    if outcome["error_code"] == "unknown_outcome":
        assert tool != "book", "this tool can find out"
        figures.in_doubt += 1
        figures.in_doubt_but_done += done > 0
    elif outcome["error_code"] == "approval_rejected":
        assert tool == "refund"
        assert done == 0
    else:
        assert text == f"{'done' if done else 'not done'}: {order}"
        figures.reconciled += tool == "book" and any(seen.key == order for seen in outside.of("booked"))
