"""Proposals of prompt tools: submitting them, reading them, reviewing them, and deciding on them.

Who acts is the caller of the token; no body has a field for it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from demiurge.bootstrap import World
from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.errors import Conflict
from demiurge.registry.tool_diff import to_json
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.paging import After, PageLimit, page_of
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["Digest", "ToolDifferences", "require_not_stale", "router"]

router = APIRouter(prefix="/api/proposals", tags=["proposals"], route_class=StrictJsonRoute)

ProposalId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
Digest = Annotated[
    str, Field(pattern=r"^sha256:[0-9a-f]{64}$", description="The `digest` of the proposal that the caller has read.")
]
Told = Annotated[str, Field(max_length=4000)]
Answer = Annotated[str, Field(min_length=1, max_length=4000)]

GivenProposal = Annotated[
    dict[str, Any],
    Body(
        description="The proposal as a file holds it: the eight fields of a prompt tool, `proposalType` (`new`, "
        "`modify`, `delete`), `rationale`, `examples`, `testCases`, `target` (`user`, `project`) and `baseHash`, the "
        "digest of the version that a change is of. Of a change, fields that are missing are those of that version. "
        "What `GET /api/prompt-tools/{tool_id}` answers may be sent with what changes: its `digest` is the `baseHash` "
        "of a change, its `layer` the `target`, and its other facts say nothing. An unknown field is refused."
    ),
]

_READ = responses(401, 403, 404, 422, 503)
_WRITE = responses(400, 401, 403, 404, 409, 422, 503)


class ProposalList(BaseModel):
    """Proposals without their bodies and reports, newest first. `next`: the `after` that reads on; None if there are no
    more."""

    proposals: list[ToolProposalView]
    next: str | None


class ToolDifferences(BaseModel):
    """The fields that differ between two versions of a prompt tool, each with its rows. A row `gap` stands for `lines`
    unchanged lines."""

    fields: list[dict[str, Any]]


class GivenReview(BaseModel):
    """The review of the Chief of Staff: the answers to the four questions, and a recommendation."""

    model_config = ConfigDict(extra="forbid")
    digest: Digest
    recommend: Literal["approve", "modify", "reject"]
    sensible: Answer
    overlaps: Answer
    violates: Answer
    changes: Answer
    notes: Told = ""


class AskedModel(BaseModel):
    """Which model to ask about the proposal that has this digest; by default the one of the server's world."""

    model_config = ConfigDict(extra="forbid")
    digest: Digest
    provider: str | None = Field(None, min_length=1, max_length=64)
    model: str | None = Field(None, min_length=1, max_length=256)


class GivenVerdict(BaseModel):
    """A person's verdict on a manual test case, with a note of what they saw."""

    model_config = ConfigDict(extra="forbid")
    digest: Digest
    case: str = Field(min_length=1, max_length=40)
    passed: bool
    note: Answer


class ReasonedDecision(BaseModel):
    """A decision on the proposal that has this digest, and why."""

    model_config = ConfigDict(extra="forbid")
    digest: Digest
    reason: Answer


class GivenApproval(BaseModel):
    """The approval of the proposal that has this digest. The reason may be left out."""

    model_config = ConfigDict(extra="forbid")
    digest: Digest
    read: bool = Field(description="The caller has read the whole text of the tool. Without it nothing is approved.")
    reason: Told = ""


class GivenWithdrawal(BaseModel):
    """The proposal that is taken back, by its digest. The reason may be left out."""

    model_config = ConfigDict(extra="forbid")
    digest: Digest
    reason: Told = ""


@router.get("", responses=_READ)
async def proposals(
    world: CurrentWorld,
    state: Annotated[str | None, Query(max_length=40, description="Only those in this state.")] = None,
    tool: Annotated[str | None, Query(max_length=256, description="Only those for the tool with this id.")] = None,
    after: After = None,
    limit: PageLimit = 200,
) -> ProposalList:
    """Lists the proposals, newest first."""
    shown, further = page_of(await world.prompt_tools.proposals(state, tool), after, limit)
    return ProposalList(proposals=shown, next=further)


@router.post("", status_code=201, responses=responses(400, 401, 403, 409, 422, 503))
async def propose(world: CurrentWorld, given: GivenProposal) -> ToolProposalView:
    """Submits a proposal. A proposal that names a core tool in any spelling is refused with `core_tool_locked`."""
    return await world.prompt_tools.propose(given)


@router.get("/{proposal_id}", responses=_READ)
async def one(world: CurrentWorld, proposal_id: ProposalId) -> ToolProposalView:
    """Returns a proposal with its body and the report of its checks."""
    return await world.prompt_tools.proposal(proposal_id)


@router.put("/{proposal_id}", responses=_WRITE)
async def revise(world: CurrentWorld, proposal_id: ProposalId, given: GivenProposal) -> ToolProposalView:
    """Replaces the body of a proposal by a revision, which is checked and reviewed again."""
    return await world.prompt_tools.propose(given, proposal_id)


@router.get("/{proposal_id}/diff", responses=_READ)
async def diff(world: CurrentWorld, proposal_id: ProposalId) -> ToolDifferences:
    """Returns the differences between the version that a proposal changes and the one that it proposes."""
    return ToolDifferences(fields=to_json(await world.prompt_tools.proposal_diff(proposal_id)))


@router.post("/{proposal_id}/review", responses=_WRITE)
async def review(world: CurrentWorld, proposal_id: ProposalId, given: GivenReview) -> ToolProposalView:
    """Records the review of the Chief of Staff. Takes the role `chief` itself: `user` does not include it."""
    answers = given.model_dump(exclude={"digest", "recommend"})
    return await world.prompt_tools.review(proposal_id, given.digest, given.recommend, **answers)


@router.post("/{proposal_id}/skip-review", responses=_WRITE)
async def skip_review(world: CurrentWorld, proposal_id: ProposalId, given: ReasonedDecision) -> ToolProposalView:
    """Goes on without a review of the Chief of Staff: the user acts as both, which is recorded. Takes the role `user`.
    Fails with 409 `chief_present` where the world has a Chief of Staff (`chiefs` of the proposal)."""
    return await world.prompt_tools.skip_review(proposal_id, given.digest, given.reason)


@router.post("/{proposal_id}/ask-model", responses=_WRITE)
async def ask_model(world: CurrentWorld, proposal_id: ProposalId, given: AskedModel) -> ToolProposalView:
    """Asks a model to review the proposal in the place of the Chief of Staff, and answers once it has. The review is
    advice: a user decides. It counts as the Chief's if the manifest's setting `chief` names this model, or the world
    has no Chief of Staff. Takes the role `user` or `chief`. Fails with 422 (`bad_answer`) if the model's answer is no
    review, 409 (`budget_exceeded`, `busy`, `reviewed`), 503 with the code of the provider's error."""
    return await world.prompt_tools.ask_model(proposal_id, given.digest, given.provider, given.model)


@router.post("/{proposal_id}/advisory-run", responses=_WRITE)
async def try_cases(world: CurrentWorld, proposal_id: ProposalId, given: AskedModel) -> ToolProposalView:
    """Tries the automatic test cases on a model, and answers once all have run; `model_runs.cases` of the proposal
    shows how far it is. No approval needs it. Takes the role `user` or `chief`. Fails as `ask-model`."""
    return await world.prompt_tools.try_cases(proposal_id, given.digest, given.provider, given.model)


@router.post("/{proposal_id}/verdicts", responses=_WRITE)
async def record_verdict(world: CurrentWorld, proposal_id: ProposalId, given: GivenVerdict) -> ToolProposalView:
    """Records a verdict on a manual test case. Takes the role `user` or `chief`."""
    return await world.prompt_tools.record_verdict(
        proposal_id, given.digest, given.case, passed=given.passed, note=given.note
    )


@router.post("/{proposal_id}/checks", responses=_WRITE)
async def run_checks(world: CurrentWorld, proposal_id: ProposalId) -> ToolProposalView:
    """Runs the checks of a proposal again."""
    return await world.prompt_tools.run_checks(proposal_id)


@router.post("/{proposal_id}/approve", responses=_WRITE)
async def approve(world: CurrentWorld, proposal_id: ProposalId, given: GivenApproval) -> ToolProposalView:
    """Approves the proposal, and puts its tool into the catalog. Takes the role `user`. Fails with 409 `stale` if
    another version of the tool is live than the one that the proposal changes; the proposal is then over. `read` is
    recorded; if it is false, the answer is 422 `not_read`."""
    found = await world.prompt_tools.approve(proposal_id, given.digest, given.reason, read=given.read)
    return _not_stale(found)


@router.post("/{proposal_id}/needs-changes", responses=_WRITE)
async def needs_changes(world: CurrentWorld, proposal_id: ProposalId, given: ReasonedDecision) -> ToolProposalView:
    """Returns the proposal to its author. Takes the role `user` or `chief`."""
    return await world.prompt_tools.needs_changes(proposal_id, given.digest, given.reason)


@router.post("/{proposal_id}/reject", responses=_WRITE)
async def reject(world: CurrentWorld, proposal_id: ProposalId, given: ReasonedDecision) -> ToolProposalView:
    """Rejects the proposal. Takes the role `user`."""
    return await world.prompt_tools.reject(proposal_id, given.digest, given.reason)


@router.post("/{proposal_id}/withdraw", responses=_WRITE)
async def withdraw(world: CurrentWorld, proposal_id: ProposalId, given: GivenWithdrawal) -> ToolProposalView:
    """Takes the proposal back. Its author may, or a user."""
    return await world.prompt_tools.withdraw(proposal_id, given.digest, given.reason)


async def require_not_stale(world: World, proposal_id: str) -> None:
    """Raises Conflict (`stale`) if the approval of a proposal found another live version than the one it changes."""
    _not_stale(await world.prompt_tools.proposal(proposal_id))


def _not_stale(found: ToolProposalView) -> ToolProposalView:
    if found.state == "stale":
        why = (found.outcome or {}).get("message") or "Another version of the tool is live: propose a revision."
        raise Conflict(why, code="stale")
    return found
