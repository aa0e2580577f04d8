"""`registry.prompt` and `registry.answer`: what a model is told of a proposal, and what its answer is.

Both are effects and no part of a reducer, so a later wording of the prompt changes nothing in an old world. They work
for the request that its unit has open, and for no other; so a plan that was started by hand asks no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import Conflict, InvalidValue, NotFound
from demiurge.registry.model_cases import case_messages, unmet_expectations
from demiurge.registry.model_review import read_review, review_messages
from demiurge.registry.proposal import TestCase, ToolProposal, read_proposal
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.wire.items import Message
from demiurge.world.effect import CellReading, EffectCall, Result, succeeded
from demiurge.world.messages import expand, user_blob
from demiurge.world.review.live_tools import live_tools
from demiurge.world.review.model_run_unit import CASES, MODEL_RUN, open_request
from demiurge.world.review.proposal_unit import PROPOSAL
from demiurge.world.review.registry_unit import REGISTRY, REGISTRY_KEY
from demiurge.world.unit import Unit

__all__ = ["make_prompt", "read_answer"]

_SHOWN: Final = 2000
"""The most characters of a reply that the result of a case keeps; the whole reply is in the journal."""


async def make_prompt(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns the messages of a request. Raises DemiurgeError (`no_run`, `no_proposal`, `other_digest`, `wrong_state`,
    `reviewed`)."""
    await _require_open_request(call, params)
    found = await call.read_cell(Unit(PROPOSAL, params["proposal"]))
    proposal = _proposal(call, found, params)
    if params["kind"] == CASES:
        told = case_messages(proposal, _case(proposal, params["case"]), call.manifest.toolset.keys())
        return succeeded(message_refs=await _stored(call, *told), readings=[found.to_node()])
    registry = await call.read_cell(Unit(REGISTRY, REGISTRY_KEY))
    live = [entry.tool for entry in live_tools(registry.cell, call.get_blob)]
    before = next((tool for tool in live if tool.id == proposal.tool.id), None) if proposal.base is not None else None
    told = review_messages(proposal, live, before, call.intent.id.hex()[:32])
    return succeeded(message_refs=await _stored(call, *told), readings=[found.to_node(), registry.to_node()])


async def read_answer(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns the review that an answer is, or what is wrong with the reply of a case, as a blob; a code and a sentence
    if the answer is no review. Raises DemiurgeError (`no_run`, `no_case`)."""
    await _require_open_request(call, params)
    cost, reply = _cost_micros(call, params["usage_ref"]), _reply(call, params["output_ref"])
    try:
        found = _judged(call, params, reply) if params["kind"] == CASES else read_review(reply, params["digest"])
    except InvalidValue as error:
        return succeeded(answer_ref=None, code=error.code, message=error.message, cost_micros=cost)
    ref = await call.put_blob(canonical_json.encode(found))
    return succeeded(answer_ref=ref, code=None, message=None, cost_micros=cost)


def _judged(call: EffectCall, params: Mapping[str, Any], reply: str) -> dict[str, Any]:
    proposal = _read(call, params["digest"])
    case = _case(proposal, params["case"])
    broken = list(unmet_expectations(proposal, case, reply, call.manifest.toolset.keys()))
    return {"case": case.id, "right": not broken, "broken": broken, "reply": reply[:_SHOWN]}


async def _stored(call: EffectCall, system: str, text: str) -> list[Ref]:
    return [await call.put_blob(data) for data in (user_blob(system, "system"), user_blob(text))]


async def _require_open_request(call: EffectCall, params: Mapping[str, Any]) -> None:
    unit = Unit(MODEL_RUN, params["proposal"])
    cell = (await call.read_cell(unit)).cell if call.unit == unit else None
    wanted = open_request(cell) if cell is not None else None
    if wanted is None or any(wanted[name] != params[name] for name in wanted):
        raise Conflict("No such model run is going on here: begin one with `demiurge tools review`.", code="no_run")


def _proposal(call: EffectCall, found: CellReading, params: Mapping[str, Any]) -> ToolProposal:
    """Returns the proposal of a run, if the run may still begin."""
    cell = found.cell
    if cell is None:
        raise NotFound("There is no such proposal.", code="no_proposal")
    if cell["body_ref"] != params["digest"]:
        raise Conflict("The proposal was changed after you read it: read it again.", code="other_digest")
    if cell["state"] not in ("chief_review", "user_decision"):
        raise Conflict(f"The proposal is {cell['state']}, so no model is asked about it.", code="wrong_state")
    if params["kind"] != CASES and cell["review"] is not None and cell["review"]["kind"] == "chief":
        raise Conflict("A person has reviewed this revision; no model's review replaces that.", code="reviewed")
    return _read(call, params["digest"])


def _read(call: EffectCall, digest: str) -> ToolProposal:
    return read_proposal(canonical_json.parse_object(call.get_blob(Ref(digest))))


def _case(proposal: ToolProposal, case_id: str) -> TestCase:
    found = next((case for case in proposal.test_cases if case.id == case_id and not case.is_manual), None)
    if found is None:
        raise NotFound(f"This proposal has no automatic test case {case_id}.", code="no_case")
    return found


def _reply(call: EffectCall, output_ref: str) -> str:
    items = expand(call.get_blob(Ref(output_ref)), call.get_blob)
    return "".join(item.text for item in items if isinstance(item, Message))


def _cost_micros(call: EffectCall, usage_ref: str | None) -> int | None:
    """Returns the cost of an answer in millionths of a dollar, None if nobody knows it."""
    if usage_ref is None:
        return None
    cost = canonical_json.parse_object(call.get_blob(Ref(usage_ref))).get("cost_micros")
    return cost if type(cost) is int and cost >= 0 else None
