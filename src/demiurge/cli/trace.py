"""`demiurge trace`: the consequences of an event, and what it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from demiurge.bootstrap.trace_view import SHORTEST_HASH, TraceTree, records_of_chat, records_of_hash, trace_trees
from demiurge.cli import output
from demiurge.cli.approval import GRANTED_BY_YES
from demiurge.cli.argument import utf8_text
from demiurge.cli.call_arguments import arguments, clipped, result_text
from demiurge.cli.command import Command
from demiurge.cli.hints import runnable
from demiurge.cli.world import opened
from demiurge.world.history.call_state import state_text

__all__ = ["command", "trace_lines"]

DIGEST = re.compile(r"(sha256:[0-9a-f]{8})[0-9a-f]{56}")
BOOKKEEPING: Final = frozenset({"step", "manifest", "plan_ended", "receipt", "event"})
"""Kinds of records that a person rarely looks for: a tree without them shows what was asked, decided and done."""

FAULTS: Final = frozenset({"failed", "denied", "refused", "stopped", "unknown_outcome"})
"""The states that a tree shows of such records too. A rejection stands with its approval."""

PHASES: Final = {"person": "waited {} for a person", "queued": "", "running": "ran {}"}

COLOURS = {"ok": "green", "done": "green", "failed": "red", "denied": "red", "unknown_outcome": "red"}


@click.command(cls=Command, name="trace")
@click.argument("event_hash", required=False)
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="All events of this chat.")
@click.option("-n", "count", type=click.IntRange(min=1), help="Only the last N events.")
@click.option("--all", "shows_all", is_flag=True, help="Show every record: steps, receipts and ends of plans too.")
def command(event_hash: str | None, chat_id: str | None, count: int | None, shows_all: bool) -> None:
    """Print the causal tree of an event: what was asked for, the decisions, how it ended, and what it waits for. Tool
    calls are shown with their exact arguments.

    EVENT_HASH is the hash that `event send` printed, or its first characters; if the same event came in several times,
    all trees are shown, the newest first. The hash of a record, from `journal tail --json`, works too.
    """
    if (event_hash is None) == (chat_id is None):
        raise click.UsageError("Give an EVENT_HASH, or --chat ID.")
    if event_hash is not None and len(event_hash.removeprefix("sha256:")) < SHORTEST_HASH:
        raise click.UsageError(f"Give at least {SHORTEST_HASH} characters of the hash.")
    with opened() as (world, portal):
        if event_hash is not None:
            roots = records_of_hash(world.backend, event_hash)[:count]
        else:
            roots = records_of_chat(world.backend, chat_id or "", count)[::-1]
        trees = portal.run(trace_trees(world.backend, roots))
    if event_hash is not None and len(roots) > 1:
        places = ", ".join(f"{root.unit} #{root.unit_seq}" for root in roots)
        output.notice(f"This event came in {len(roots)} times: {places}.")
    waiting = [node for tree in trees for node in tree.nodes if _waits(node)]
    reasons = [_short(tree.failure) for tree in trees if tree.failure] + [_wait(node) for node in waiting]
    document = {
        "events": [tree.nodes for tree in trees],
        "lineages": [_lineage_json(tree) for tree in trees],
        "waiting": waiting,
    }
    shown = trace_lines(trees, shows_all=shows_all)
    reasons = reasons or ["Nothing is waited for, as far as records say."]
    output.result(document, *shown, *map(output.plain, reasons), painted=True)


def trace_lines(trees: Sequence[TraceTree], *, shows_all: bool = False) -> list[str]:
    """Returns trees as lines with colours and without control characters, with bookkeeping only if it `shows_all`."""
    return [line for tree in trees for line in _lines(tree.nodes if shows_all else _without_bookkeeping(tree.nodes))]


def _without_bookkeeping(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the nodes of a tree that a person looks for: its event, intents, decisions, events of other units, and
    whatever went wrong. An intent also says what its receipt says, such as the secrets that were used, and its times.
    """
    granted = {(node["unit"], node["cause"]) for node in nodes if _is_granted(node)}
    kept: list[dict[str, Any]] = []
    above: list[int | None] = []  # for each depth: the index in `kept` of the node that stands there, or stands for it
    for node in nodes:
        depth = node["depth"]
        parent = above[depth - 1] if depth else None
        is_own = parent is not None and node["unit"] == kept[parent]["unit"]
        if parent is not None and node["kind"] in BOOKKEEPING and is_own and node["state"] not in FAULTS:
            if node["kind"] == "receipt" and node["says"]:
                kept[parent]["says"] += f", {node['says']}"
            standing: int | None = parent
        else:
            kept.append(
                {
                    **node,
                    "depth": 0 if parent is None else kept[parent]["depth"] + 1,
                    "times": _times(node, (node["unit"], node["seq"]) in granted),
                }
            )
            standing = len(kept) - 1
        above[depth:] = [standing]
    later: set[int] = set()  # the depths at which another node of the same parent follows
    for node in reversed(kept):
        node["is_last"] = node["depth"] not in later
        later = {depth for depth in later if depth < node["depth"]} | {node["depth"]}
    return list(kept)


def _is_granted(node: Mapping[str, Any]) -> bool:
    """Returns whether a node is an approval by `--yes`, for which no person was waited for."""
    return node["kind"] == "approval" and node.get("reason") == GRANTED_BY_YES


def _times(node: Mapping[str, Any], is_granted: bool) -> str:
    """Returns how long an intent waited for a person and ran, in words; "" if nobody knows."""
    ended = [phase for phase in node.get("phases", ()) if phase["to_ns"] is not None]
    ended = [phase for phase in ended if not (is_granted and phase["phase"] == "person")]
    said = [PHASES[phase["phase"]].format(_seconds(phase["to_ns"] - phase["from_ns"])) for phase in ended]
    return ", ".join(filter(None, said))


def _seconds(ns: int) -> str:
    return f"{ns / 1_000_000:.0f} ms" if ns < 1_000_000_000 else f"{ns / 1_000_000_000:.1f} s"


def _lines(nodes: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    root, open_branches = nodes[0], dict[int, bool]()
    corner, tee, bar = (output.symbol(good, plain) for good, plain in (("└─ ", "`- "), ("├─ ", "|- "), ("│  ", "|  ")))
    for node in nodes:
        depth = node["depth"]
        open_branches[depth] = not node["is_last"]
        trunk = "".join(bar if open_branches[above] else "   " for above in range(1, depth))
        branch = "" if depth == 0 else corner if node["is_last"] else tee
        where = f"{output.plain(node['unit'])} " if node["unit"] != root["unit"] or depth == 0 else ""
        after_ms = (node["time_ns"] - root["time_ns"]) / 1_000_000
        name = node["state"]
        words = output.plain(state_text(name, node["by"])) if name else ""
        state = output.paint(f" {words}", fg=COLOURS.get(name, "yellow")) if name else ""
        why = f" ({output.plain(node['why'])})" if node["why"] else ""
        reason = f": {node['reason']}" if node.get("reason") else ""
        says = output.plain(_short(f"{node['kind']} {node['says']}{reason}").strip() + _arguments(node))
        times = f" {node['times']}" if node.get("times") else ""
        yield f"{trunk}{branch}{says} #{where}{node['seq']} +{after_ms:.0f} ms{times}{state}{why}"
        if node.get("view_ref") is not None and "content" in node:
            told = clipped(result_text(None, node["content"], node["value"]))
            told += f" (value of {node['value_cut']} bytes)" if "value_cut" in node else ""
            below = trunk + ("" if depth == 0 else "   " if node["is_last"] else bar)
            yield f"{below}{output.symbol('←', '<-')} {output.plain(told)}"


def _arguments(node: Mapping[str, Any]) -> str:
    if "arguments_json" not in node:
        return ""
    text = node["arguments_json"]
    shown = clipped(arguments(text)) if text is not None else f"(can't be read: {node['arguments_problem']})"
    return f" {shown}"


def _waits(node: Mapping[str, Any]) -> bool:
    return node["depth"] > 0 and node["state"] in ("awaiting_approval", "running")


def _wait(node: Mapping[str, Any]) -> str:
    person = runnable("a person (see `demiurge approvals ls`)")
    what = person if node["state"] == "awaiting_approval" else "a receipt"
    return f"Waits for {what}: {_short(node['says'])} #{node['seq']}"


def _lineage_json(tree: TraceTree) -> dict[str, Any]:
    event = {"event_hash": tree.event_hash} if tree.event_hash is not None else {}
    return {"unit": tree.unit, "seq": tree.seq, **event, "state": tree.state, "why": tree.why}


def _short(text: str) -> str:
    return DIGEST.sub(r"\1", text)
