"""`registry.prompt` and `registry.answer`: what a model is told of a proposal, and what its answer is.

Both are effects and no part of a reducer, so a later wording of the prompt changes nothing in an old world. They work
for the run that its unit says is going on, and for no other; so a plan that was started by hand asks no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import Conflict, InvalidValue, NotFound
from demiurge.registry.model_review import read_review, review_messages
from demiurge.registry.proposal import ToolProposal, read_proposal
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.wire.items import Message
from demiurge.world.effect import CellReading, EffectCall, Result, succeeded
from demiurge.world.messages import expand, user_blob
from demiurge.world.review.live_tools import live_tools
from demiurge.world.review.model_run_unit import MODEL_RUN
from demiurge.world.review.proposal_unit import PROPOSAL
from demiurge.world.review.registry_unit import REGISTRY, REGISTRY_KEY
from demiurge.world.unit import Unit

__all__ = ["make_prompt", "read_answer"]


async def make_prompt(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns the messages of a request. Raises DemiurgeError (`no_run`, `no_proposal`, `other_digest`, `wrong_state`,
    `reviewed`)."""
    await _require_going_on(call, params)
    found = await call.read_cell(Unit(PROPOSAL, params["proposal"]))
    proposal = _proposal(call, found, params["digest"])
    registry = await call.read_cell(Unit(REGISTRY, REGISTRY_KEY))
    live = [entry.tool for entry in live_tools(registry.cell, call.get_blob)]
    before = next((tool for tool in live if tool.id == proposal.tool.id), None) if proposal.base is not None else None
    system, text = review_messages(proposal, live, before, call.intent.id.hex()[:32])
    refs = [await call.put_blob(data) for data in (user_blob(system, "system"), user_blob(text))]
    return succeeded(message_refs=refs, readings=[found.to_node(), registry.to_node()])


async def read_answer(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns the review that an answer is, as a blob; a code and a sentence if it is none. Raises DemiurgeError
    (`no_run`)."""
    await _require_going_on(call, params)
    cost = _cost_micros(call, params["usage_ref"])
    try:
        review = read_review(_reply(call, params["output_ref"]), params["digest"])
    except InvalidValue as error:
        return succeeded(answer_ref=None, code=error.code, message=error.message, cost_micros=cost)
    ref = await call.put_blob(canonical_json.encode(review))
    return succeeded(answer_ref=ref, code=None, message=None, cost_micros=cost)


async def _require_going_on(call: EffectCall, params: Mapping[str, Any]) -> None:
    unit = Unit(MODEL_RUN, params["proposal"])
    cell = (await call.read_cell(unit)).cell if call.unit == unit else None
    kind = cell["going"] if cell is not None else None
    run = cell["runs"][kind] if cell is not None and kind is not None else None
    if run is None or (kind, run["number"], run["digest"]) != tuple(params[n] for n in ("kind", "number", "digest")):
        raise Conflict("No such model run is going on here: begin one with `demiurge tools review`.", code="no_run")


def _proposal(call: EffectCall, found: CellReading, digest: str) -> ToolProposal:
    cell = found.cell
    if cell is None:
        raise NotFound("There is no such proposal.", code="no_proposal")
    if cell["body_ref"] != digest:
        raise Conflict("The proposal was changed after you read it: read it again.", code="other_digest")
    if cell["state"] not in ("chief_review", "user_decision"):
        raise Conflict(f"The proposal is {cell['state']}, so it can not be reviewed.", code="wrong_state")
    if cell["review"] is not None and cell["review"]["kind"] == "chief":
        raise Conflict("A person has reviewed this revision; no model's review replaces that.", code="reviewed")
    return read_proposal(canonical_json.parse_object(call.get_blob(Ref(cell["body_ref"]))))


def _reply(call: EffectCall, output_ref: str) -> str:
    items = expand(call.get_blob(Ref(output_ref)), call.get_blob)
    return "".join(item.text for item in items if isinstance(item, Message))


def _cost_micros(call: EffectCall, usage_ref: str | None) -> int | None:
    """Returns the cost of an answer in millionths of a dollar, None if nobody knows it."""
    if usage_ref is None:
        return None
    cost = canonical_json.parse_object(call.get_blob(Ref(usage_ref))).get("cost_micros")
    return cost if type(cost) is int and cost >= 0 else None
