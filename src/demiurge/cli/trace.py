"""`demiurge trace`: the consequences of an event, and what it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import click

from demiurge.bootstrap.trace_view import SHORTEST_HASH, TraceTree, records_of_chat, records_of_hash, trace_trees
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.call_arguments import arguments, clipped
from demiurge.cli.command import Command
from demiurge.cli.settings import with_world
from demiurge.cli.world import opened

__all__ = ["command"]

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
    shown = [line for tree in trees for line in _lines(tree)]
    output.result(document, *shown, *(reasons or ["Nothing is waited for, as far as records say."]))


def _lines(tree: TraceTree) -> Iterable[str]:
    root, open_branches = tree.nodes[0], dict[int, bool]()
    corner, tee, bar = (output.symbol(good, plain) for good, plain in (("└─ ", "`- "), ("├─ ", "|- "), ("│  ", "|  ")))
    for node in tree.nodes:
        depth = node["depth"]
        open_branches[depth] = not node["is_last"]
        trunk = "".join(bar if open_branches[above] else "   " for above in range(1, depth))
        branch = "" if depth == 0 else corner if node["is_last"] else tee
        where = f"{node['unit']} " if node["unit"] != root["unit"] or depth == 0 else ""
        after_ms = (node["time_ns"] - root["time_ns"]) / 1_000_000
        name = node["state"]
        state = output.paint(f" {name}", fg=COLOURS.get(name, "yellow")) if name else ""
        why = f" ({node['why']})" if node["why"] else ""
        says = _short(f"{node['kind']} {node['says']}").strip() + _arguments(node)
        yield f"{trunk}{branch}{says} #{where}{node['seq']} +{after_ms:.0f} ms{state}{why}"


def _arguments(node: Mapping[str, Any]) -> str:
    if "arguments_json" not in node:
        return ""
    text = node["arguments_json"]
    shown = clipped(arguments(text)) if text is not None else f"(can't be read: {node['arguments_problem']})"
    return f" {shown}"


def _waits(node: Mapping[str, Any]) -> bool:
    return node["depth"] > 0 and node["state"] in ("awaiting_approval", "running")


def _wait(node: Mapping[str, Any]) -> str:
    person = with_world("a person (see `demiurge approvals ls`)")
    what = person if node["state"] == "awaiting_approval" else "a receipt"
    return f"Waits for {what}: {_short(node['says'])} #{node['seq']}"


def _lineage_json(tree: TraceTree) -> dict[str, Any]:
    event = {"event_hash": tree.event_hash} if tree.event_hash is not None else {}
    return {"unit": tree.unit, "seq": tree.seq, **event, "state": tree.state, "why": tree.why}


def _short(text: str) -> str:
    return DIGEST.sub(r"\1", text)
