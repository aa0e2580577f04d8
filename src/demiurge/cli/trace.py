"""`demiurge trace`: the consequences of an event, and what it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import click

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap import World
from demiurge.bootstrap.chat_state import Failed
from demiurge.bootstrap.failure import failure
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.call_arguments import arguments, clipped
from demiurge.cli.command import Command
from demiurge.cli.settings import with_world
from demiurge.cli.world import opened
from demiurge.errors import DemiurgeError, NotFound
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_from_digest
from demiurge.world.effect_kinds import TOOL
from demiurge.world.history.trace import TraceLine, lineage, outcome, trace
from demiurge.world.host import Accepted
from demiurge.world.record import Record
from demiurge.world.routing import event_digest
from demiurge.world.unit import Unit

__all__ = ["command"]

SHORTEST = 6
DIGEST = re.compile(r"(sha256:[0-9a-f]{8})[0-9a-f]{56}")
COLOURS = {"ok": "green", "done": "green", "failed": "red", "denied": "red", "rejected": "red"}


@click.command(cls=Command, name="trace")
@click.argument("event_hash", required=False)
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="All events of this chat.")
@click.option("-n", "count", type=click.IntRange(min=1), help="Only the last N events.")
def command(event_hash: str | None, chat_id: str | None, count: int | None) -> None:
    """Print the causal tree of an event: steps, decisions, intents, receipts, how it ended, and what it waits for. Tool
    calls are shown with their exact arguments.

    EVENT_HASH is the hash that `event send` printed, or its first characters; if the same event came in several times,
    all trees are shown, the newest first. The hash of a record, from `journal tail --json`, works too.
    """
    if (event_hash is None) == (chat_id is None):
        raise click.UsageError("Give an EVENT_HASH, or --chat ID.")
    with opened() as (world, portal):
        if event_hash is not None:
            roots = _found(world, event_hash)[::-1][:count]
        else:
            roots = _messages(world, chat_id or "")[-(count or 0) :]
        trees = [trace(lineage(world.journal.read(from_seq=root.position or 0), _place(root))) for root in roots]
        arguments_by_place = {_place(line.record): _arguments(world, line.record) for tree in trees for line in tree}
        ends = [_end(tree, portal.run(_refused(world, tree[0].record))) for tree in trees]
    if event_hash is not None and len(roots) > 1:
        places = ", ".join(f"{root.unit} #{root.unit_seq}" for root in roots)
        output.notice(f"This event came in {len(roots)} times: {places}.")
    waiting = [line for tree in trees for line in tree if line.state in ("awaiting_approval", "running")]
    known = {place: found for place, found in arguments_by_place.items() if found is not None}
    reasons = [end.sentence for end in ends if end.sentence] + _waits(waiting)
    shown = [text for tree, end in zip(trees, ends, strict=True) for text in _tree(tree, end, known)]
    document = {
        "events": [_tree_json(tree, end, known) for tree, end in zip(trees, ends, strict=True)],
        "lineages": [_lineage_json(tree[0].record, end) for tree, end in zip(trees, ends, strict=True)],
        "waiting": [_as_json(line, known) for line in waiting],
    }
    output.result(document, *shown, *(reasons or ["Nothing is waited for, as far as records say."]))


class _ProposedArguments(NamedTuple):
    """The exact arguments of a proposed tool call, which the owner of the world may see; without `text`, the reason why
    they cannot be read."""

    text: str | None
    problem: str = ""

    @property
    def shown(self) -> str:
        return clipped(arguments(self.text)) if self.text is not None else f"(can't be read: {self.problem})"


_Place: TypeAlias = tuple[str, int]


def _arguments(world: World, record: Record) -> _ProposedArguments | None:
    """Returns None for a record without a call."""
    if record.kind not in ("intent", "decision") or record.body.get("kind") != TOOL:
        return None
    ref = (record.body.get("params") or {}).get("call_ref")
    if ref is None:
        return None
    try:
        return _ProposedArguments(canonical_json.parse_object(world.blobs.get(ref))["arguments_json"])
    except DemiurgeError as error:
        return _ProposedArguments(None, str(error))


class _End(NamedTuple):
    """The state of a tree: `done`, `failed`, `waiting` (for a person), `running` (for a receipt); `why` it failed, as a
    code and as a sentence."""

    state: str
    why: str = ""
    sentence: str = ""


def _end(tree: Sequence[TraceLine], refused: Failed | None) -> _End:
    found, root = outcome(tree), tree[0].record
    state = "failed" if found.state == "done" and refused is not None else found.state
    if found.failed:
        first = found.failed[0]
        what = _short(f"{first.record.kind} {first.says}").strip()
        return _End(state, first.why, f"Failed: {what} #{first.record.unit} {first.record.unit_seq}: {first.why}")
    if refused is not None:
        why = f"{refused.code}: {refused.message}"
        return _End(state, why, f"Failed: {root.kind} #{root.unit} {root.unit_seq}: {why}")
    return _End(state)


async def _refused(world: World, root: Record) -> Failed | None:
    """Returns the app's refusal of an event that it accepted without effect."""
    if root.kind == "event":
        with suppress(DemiurgeError):  # without the state, the records are shown all the same
            return await failure(world.backend, Accepted(root.unit, root.unit_seq, _event_hash(root)))
    return None


def _found(world: World, prefix: str) -> list[Record]:
    """Returns the records that a hash names, oldest first: the record itself, or all records of that event. Reads the
    journal once."""
    digits = prefix.removeprefix("sha256:").lower()
    if len(digits) < SHORTEST:
        raise click.UsageError(f"Give at least {SHORTEST} characters of the hash.")
    found: dict[str, list[Record]] = {}
    for record in world.journal.read():
        hashes = [record.hash.hex()]
        hashes += [_event_hash(record).removeprefix("sha256:")] if record.kind == "event" else []
        for name in hashes:
            if name.startswith(digits):
                found.setdefault(name, []).append(record)
    if not found:
        raise NotFound(
            f"No event and no record has the hash {prefix}; `demiurge journal tail --json` shows them.",
            code="no_record",
        )
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} hashes begin with {digits}; say more of it.")
    return next(iter(found.values()))


def _event_hash(record: Record) -> Ref:
    """Returns the hash that `event send` printed for the record's event."""
    return ref_from_digest(event_digest(record.body["schema"], record.body["value"], Unit.parse(record.unit).key))


def _messages(world: World, chat_id: str) -> list[Record]:
    unit = str(Unit(CHAT, chat_id))
    found = [record for record in world.journal.read(unit) if record.kind == "event" and record.cause is None]
    if not found:
        raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="chat_unknown")
    return found


def _place(record: Record) -> tuple[str, int]:
    return record.unit, record.unit_seq


def _tree(
    lines: Sequence[TraceLine], end: _End, arguments_by_place: Mapping[_Place, _ProposedArguments]
) -> Iterable[str]:
    root, open_branches = lines[0].record, dict[int, bool]()
    corner, tee, bar = (output.symbol(good, plain) for good, plain in (("└─ ", "`- "), ("├─ ", "|- "), ("│  ", "|  ")))
    for line in lines:
        record = line.record
        open_branches[line.depth] = not line.is_last
        trunk = "".join(bar if open_branches[depth] else "   " for depth in range(1, line.depth))
        branch = "" if line.depth == 0 else corner if line.is_last else tee
        where = f"{record.unit} " if record.unit != root.unit or line.depth == 0 else ""
        after_ms = (record.stamp.time_ns - root.stamp.time_ns) / 1_000_000
        name = line.state or (end.state if line.depth == 0 else "")
        state = output.paint(f" {name}", fg=COLOURS.get(name, "yellow")) if name else ""
        why = f" ({line.why})" if line.why else ""
        says = _short(f"{record.kind} {line.says}").strip()
        if _place(record) in arguments_by_place:
            says += f" {arguments_by_place[_place(record)].shown}"
        yield f"{trunk}{branch}{says} #{where}{record.unit_seq} +{after_ms:.0f} ms{state}{why}"


def _waits(waiting: list[TraceLine]) -> list[str]:
    person = with_world("a person (see `demiurge approvals ls`)")
    return [
        f"Waits for {person if line.state == 'awaiting_approval' else 'a receipt'}: "
        f"{_short(line.says)} #{line.record.unit_seq}"
        for line in waiting
    ]


def _tree_json(
    tree: Sequence[TraceLine], end: _End, arguments_by_place: Mapping[_Place, _ProposedArguments]
) -> list[dict[str, Any]]:
    """Returns a tree as JSON; its root has the state of the whole tree."""
    root, *rest = (_as_json(line, arguments_by_place) for line in tree)
    return [{**root, "state": root["state"] or end.state}, *rest]


def _lineage_json(root: Record, end: _End) -> dict[str, Any]:
    event = {"event_hash": _event_hash(root)} if root.kind == "event" else {}
    return {"unit": root.unit, "seq": root.unit_seq, **event, "state": end.state, "why": end.why or None}


def _short(text: str) -> str:
    return DIGEST.sub(r"\1", text)


def _as_json(line: TraceLine, arguments_by_place: Mapping[_Place, _ProposedArguments]) -> dict[str, Any]:
    """Returns a line as JSON; `arguments_json` holds the arguments of a tool call as proposed, None if they cannot be
    read."""
    record = line.record
    exact = {"arguments_json": arguments_by_place[_place(record)].text} if _place(record) in arguments_by_place else {}
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
        **exact,
    }
