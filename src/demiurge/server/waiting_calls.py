"""A description of a call that waits, for the person who decides: its chat, its effect, the rule that asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap import World
from demiurge.bootstrap.call_card import call_card
from demiurge.bootstrap.mcp_tools import server_of
from demiurge.bootstrap.tool_view import trust_of
from demiurge.errors import DemiurgeError
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller
from demiurge.visible_text import visible_name
from demiurge.world.unit import Unit

__all__ = ["describe_waiting_calls"]


async def describe_waiting_calls(world: World, waiting: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns each call with `{chat_id, title, effect, card, rules, server, trust, asked_ns}` added. `title` is cut,
    with hidden characters spelled out (`visible_name`); the chat has the whole. `card` has the words of the call's card
    (`CallCard`); `asked_ns` is None for a call whose record cannot be read; `rules` are the lines of the tool policy in
    force that decide on the call; `server` is the name of the MCP server that the tool is of, and `trust` is `pinned`
    or `quarantined`; None for other tools."""
    node = world.manifest()
    policy = ToolPolicy.from_json(node["tool_policy"])
    specs = {spec.name: spec for spec in map(ToolSpec.from_json, node["toolset"])}
    units = {call["unit"] for call in waiting}
    asked = await asyncio.to_thread(_asked_ns, world, waiting)
    titles = {unit: await _title(world, unit) for unit in units}
    shown = []
    for call in waiting:
        tool = call.get("tool", "")
        spec = specs.get(tool)
        effect = spec.effect if spec is not None else ToolEffect.EXTERNAL_SIDE_EFFECT
        context = ToolPolicyContext.of(Caller(call.get("actor", "")), tainted=bool(call.get("tainted")))
        unit = Unit.parse(call["unit"])
        more = {
            "chat_id": unit.key if unit.module == CHAT else None,
            "title": titles[call["unit"]],
            "effect": effect.value,
            "card": asdict(call_card(node, call, world.caller)),
            "rules": [dict(line) for line in policy.deciding_lines(context, tool, effect)],
            "server": server_of(spec) if spec is not None else None,
            "trust": trust_of(spec) if spec is not None else None,
            "asked_ns": asked.get(call["id"]),
        }
        shown.append({**call, **more})
    return shown


def _asked_ns(world: World, waiting: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Returns when each call was asked for, by its id. Reads one record for each call."""
    found: dict[str, int] = {}
    for call in waiting:
        if call["id"] is not None:
            with suppress(DemiurgeError):
                [record] = world.backend.read.records(call["unit"], call["seq"], 1)
                found[call["id"]] = record["time_ns"]
    return found


async def _title(world: World, unit: str) -> str:
    place = Unit.parse(unit)
    standing = await world.chat(place.key).standing() if place.module == CHAT else None
    return visible_name(standing.name) if standing is not None else ""
