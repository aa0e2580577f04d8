"""`registry.*`: checks proposals, submits those of tools, and reads approved tools.

A check runs the harness on the proposal's blob, beside the tools that are live; its report is a blob. What a running
tool proposes is submitted in the name of the agent: the unit of the proposal knows it by the sender. No effect reviews,
decides or approves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.registry.harness import run_harness
from demiurge.registry.pack.load import core_tools
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import read_proposal
from demiurge.tools.errors import ToolUserError
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.prompt_tools import PROMPT_TOOLS
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.effects.model_runs import make_prompt, read_answer
from demiurge.world.manifest import Manifest
from demiurge.world.review.live_tools import live_tools
from demiurge.world.review.proposal_unit import PROPOSAL, PROPOSAL_REVISE, PROPOSAL_SUBMIT, REFUSED
from demiurge.world.review.registry_unit import REGISTRY, REGISTRY_KEY
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["PromptToolEffects", "WorldPromptTools"]


class PromptToolEffects:
    """The adapter of `registry.*`."""

    kinds = PROMPT_TOOLS.names

    @classmethod
    def bind(cls, _parts: WorldParts) -> PromptToolEffects:
        return cls()

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """Returns "retry": a check changes nothing, and a proposal's event is taken once."""
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        answers = {
            "registry.check": _check,
            "registry.propose": _propose,
            "registry.tools": _tools,
            "registry.prompt": make_prompt,
            "registry.answer": read_answer,
        }
        try:
            return await answers[call.intent.kind](call, call.intent.params)
        except DemiurgeError as error:
            return failed(error.code, error.message)


async def _check(call: EffectCall, params: Mapping[str, Any]) -> Result:
    reading = await call.read_cell(Unit(REGISTRY, REGISTRY_KEY))
    live = [found.tool for found in live_tools(reading.cell, call.get_blob)]
    proposal = read_proposal(canonical_json.parse_object(call.get_blob(Ref(params["body_ref"]))))
    report = await asyncio.to_thread(run_harness, proposal, live, call.manifest.toolset.keys())
    report_ref = await call.put_blob(canonical_json.encode(report.to_json()))
    return succeeded(digest=proposal.digest, passed=report.passed, report_ref=report_ref, reading=reading.to_node())


async def _propose(call: EffectCall, params: Mapping[str, Any]) -> Result:
    revises = params["revises"]
    proposal_id = revises if revises is not None else f"p{call.intent.id.hex()[:10]}"
    value = {"proposal_id": proposal_id, "body_ref": params["body_ref"]}
    schema = PROPOSAL_SUBMIT if revises is None else PROPOSAL_REVISE
    for record in await call.send(schema, value):
        if record.kind == "event" and record.body["schema"] == REFUSED:
            refused = record.body["value"]
            return failed(refused["code"], refused["message"])
    cell = (await call.read_cell(Unit(PROPOSAL, proposal_id))).cell
    if cell is None:
        raise InvalidValue("The proposal was not taken.", code="invalid_proposal")
    return succeeded(proposal=proposal_id, state=cell["state"], digest=params["body_ref"])


async def _tools(call: EffectCall, _params: Mapping[str, Any]) -> Result:
    """Stores the records of the approved tools. A turn of a chat is answered by the catalog that its message brought,
    so that it never sees what was approved after it began; a turn without a catalog has none."""
    asking = call.services.state(call.unit)
    turn = asking.cell.get("turn") if asking.cell is not None else None
    records: list[Mapping[str, Any]]
    if not isinstance(turn, Mapping):
        reading = await call.read_cell(Unit(REGISTRY, REGISTRY_KEY))
        records = [live.tool.to_json() for live in live_tools(reading.cell, call.get_blob)]
        node = reading.to_node()
    else:
        records = _records_of(turn.get("catalog_ref"), call)
        node = {"unit": str(call.unit), "unit_seq": asking.seq, "state_hash": None}
    return succeeded(tools_ref=await call.put_blob(canonical_json.encode(records)), reading=node)


def _records_of(catalog_ref: str | None, call: EffectCall) -> list[Mapping[str, Any]]:
    """Returns the records of the tools in a catalog, without those whose text was erased since; none without a
    catalog."""
    if catalog_ref is None:
        return []
    digests: Mapping[str, str] = canonical_json.parse_object(call.get_blob(Ref(catalog_ref)))["prompt_tools"]
    shipped: dict[str, Mapping[str, Any]] = {tool.digest: tool.to_json() for tool in core_tools()}
    found: list[Mapping[str, Any]] = []
    for digest in digests.values():
        with suppress(NotFound):
            found.append(shipped.get(digest) or canonical_json.parse_object(call.get_blob(Ref(digest))))
    return found


class WorldPromptTools:
    """The `PromptTools` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def tools(self) -> list[Mapping[str, str]]:
        found = await ask(self._call, "registry.tools")
        records = canonical_json.parse(self._call.get_blob(found["tools_ref"]))
        return [PromptTool.from_json(record).to_json() for record in records]

    async def propose(self, proposal: Mapping[str, Any], *, revises: str | None = None) -> Mapping[str, Any]:
        try:
            body = read_proposal(proposal).encode()
        except DemiurgeError as error:
            raise ToolUserError(f"{error.message} ({error.code})") from error
        ref = await self._call.put_blob(body)
        return await ask(self._call, "registry.propose", body_ref=ref, revises=revises)
