"""`demiurge trace`: what an event led to, and what it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap import World
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.world import opened
from demiurge.errors import NotFound
from demiurge.world.history.trace import TraceLine, lineage, trace
from demiurge.world.record import Record
from demiurge.world.unit import Unit

__all__ = ["command"]

SHORTEST = 6
DIGEST = re.compile(r"(sha256:[0-9a-f]{8})[0-9a-f]{56}")
COLOURS = {"ok": "green", "failed": "red", "denied": "red", "rejected": "red"}


@click.command(cls=Command, name="trace")
@click.argument("event_hash", required=False)
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="All that came in to this chat.")
@click.option("-n", "count", type=click.IntRange(min=1), help="Only the last N events of the chat.")
def command(event_hash: str | None, chat_id: str | None, count: int | None) -> None:
    """Print the causal tree of an event: steps, decisions, intents, receipts, and what is waited for.

    EVENT_HASH is what `event send` printed, or its first characters.
    """
    if (event_hash is None) == (chat_id is None):
        raise click.UsageError("Say an EVENT_HASH, or --chat ID.")
    with opened() as (world, _):
        roots = (
            [_event(world, event_hash)] if event_hash is not None else _messages(world, chat_id or "")[-(count or 0) :]
        )
        trees = [trace(lineage(world.journal.read(from_seq=root.position or 0), _place(root))) for root in roots]
    waiting = [line for tree in trees for line in tree if line.state in ("awaiting_approval", "running")]
    shown = [text for tree in trees for text in _tree(tree)] + _waits(waiting)
    document = {"events": [[_as_json(line) for line in tree] for tree in trees], "waiting": [*map(_as_json, waiting)]}
    output.result(document, *shown)


def _event(world: World, wanted: str) -> Record:
    digits = wanted.removeprefix("sha256:").lower()
    if len(digits) < SHORTEST:
        raise click.UsageError(f"Say at least {SHORTEST} characters of the hash.")
    found = [record for record in world.journal.read() if record.hash.hex().startswith(digits)]
    if not found:
        raise NotFound(f"No record has the hash {wanted}; `demiurge journal tail --json` shows them.", code="no_record")
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} records have a hash that begins with {digits}; say more of it.")
    return found[0]


def _messages(world: World, chat_id: str) -> list[Record]:
    unit = str(Unit(CHAT, chat_id))
    found = [record for record in world.journal.read(unit) if record.kind == "event" and record.cause is None]
    if not found:
        raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="chat_unknown")
    return found


def _place(record: Record) -> tuple[str, int]:
    return record.unit, record.unit_seq


def _tree(lines: list[TraceLine]) -> Iterable[str]:
    root, open_branches = lines[0].record, dict[int, bool]()
    corner, tee, bar = (output.symbol(good, plain) for good, plain in (("└─ ", "`- "), ("├─ ", "|- "), ("│  ", "|  ")))
    for line in lines:
        record = line.record
        open_branches[line.depth] = not line.is_last
        trunk = "".join(bar if open_branches[depth] else "   " for depth in range(1, line.depth))
        branch = "" if line.depth == 0 else corner if line.is_last else tee
        where = f"{record.unit} " if record.unit != root.unit or line.depth == 0 else ""
        after_ms = (record.stamp.time_ns - root.stamp.time_ns) / 1_000_000
        state = output.paint(f" {line.state}", fg=COLOURS.get(line.state, "yellow")) if line.state else ""
        why = f" ({line.why})" if line.why else ""
        says = _short(f"{record.kind} {line.says}").strip()
        yield f"{trunk}{branch}{says} #{where}{record.unit_seq} +{after_ms:.0f} ms{state}{why}"


def _waits(waiting: list[TraceLine]) -> list[str]:
    if not waiting:
        return ["Nothing is waited for."]
    return [
        f"Waits for {'a person (see `demiurge approvals ls`)' if line.state == 'awaiting_approval' else 'a receipt'}: "
        f"{_short(line.says)} #{line.record.unit_seq}"
        for line in waiting
    ]


def _short(text: str) -> str:
    return DIGEST.sub(r"\1", text)


def _as_json(line: TraceLine) -> dict[str, Any]:
    record = line.record
    return {
        "unit": record.unit,
        "seq": record.unit_seq,
        "kind": record.kind,
        "hash": record.hash.hex(),
        "depth": line.depth,
        "time_ns": record.stamp.time_ns,
        "says": line.says,
        "state": line.state or None,
        "why": line.why or None,
    }
