"""The issues of a world, among them those that ask for the review of a proposal and for the decision on it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from demiurge.bootstrap.backend.review import MAX_ISSUE_BODY
from demiurge.bootstrap.backend.review_views import IssueView
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.paging import After, PageLimit, page_of
from demiurge.server.routes.proposals import Digest, require_not_stale
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["router"]

router = APIRouter(prefix="/api/issues", tags=["issues"], route_class=StrictJsonRoute)

IssueId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,140}$")]
Status = Literal["open", "waiting-on-user", "closed"]
Priority = Literal["low", "normal", "high", "urgent"]

_WRITE = responses(400, 401, 403, 404, 409, 422, 503)


class IssueList(BaseModel):
    """Issues without their bodies and comments, newest first. `next`: the `after` that reads on; None if there are no
    more."""

    issues: list[IssueView]
    next: str | None


class NewIssue(BaseModel):
    """An issue to open. Its author is the caller."""

    model_config = ConfigDict(extra="forbid")
    title: str = Field(min_length=1, max_length=200)
    body: str = Field("", max_length=MAX_ISSUE_BODY)
    assignee: str = Field("", max_length=256)
    tags: list[Annotated[str, Field(min_length=1, max_length=60)]] = Field([], max_length=20)
    priority: Priority = "normal"


class NewComment(BaseModel):
    """A comment of the caller."""

    model_config = ConfigDict(extra="forbid")
    body: str = Field(min_length=1, max_length=20_000)


class GivenAction(BaseModel):
    """One of the issue's actions. An approval names the digest of the proposal that the caller has read, and says with
    `read` that it was read whole."""

    model_config = ConfigDict(extra="forbid")
    action: Literal["approve", "needs_changes", "reject"]
    reason: str = Field("", max_length=4000)
    digest: Digest | None = None
    read: bool = False


class GivenReason(BaseModel):
    """Why an issue is closed or opened again. It becomes a comment."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field("", max_length=20_000)


@router.get("", responses=responses(401, 403, 404, 422, 503))
async def issues(
    world: CurrentWorld,
    status: Annotated[Status | None, Query()] = None,
    assignee: Annotated[str | None, Query(max_length=256)] = None,
    tag: Annotated[str | None, Query(max_length=60)] = None,
    priority: Annotated[Priority | None, Query()] = None,
    after: After = None,
    limit: PageLimit = 200,
) -> IssueList:
    """Lists the issues that fit all of what is given, newest first."""
    shown, further = page_of(await world.issues.list(status, assignee, tag, priority), after, limit)
    return IssueList(issues=shown, next=further)


@router.post("", status_code=201, responses=responses(400, 401, 403, 409, 422, 503))
async def open_issue(world: CurrentWorld, given: NewIssue) -> IssueView:
    """Opens an issue."""
    return await world.issues.open(
        given.title, given.body, assignee=given.assignee, tags=given.tags, priority=given.priority
    )


@router.get("/{issue_id}", responses=responses(401, 403, 404, 422, 503))
async def one(world: CurrentWorld, issue_id: IssueId) -> IssueView:
    """Returns an issue with its body and comments."""
    return await world.issues.show(issue_id)


@router.post("/{issue_id}/comments", status_code=201, responses=_WRITE)
async def comment(world: CurrentWorld, issue_id: IssueId, given: NewComment) -> IssueView:
    """Adds a comment, and returns the issue with it."""
    return await world.issues.comment(issue_id, given.body)


@router.post("/{issue_id}/actions", responses=_WRITE)
async def act(world: CurrentWorld, issue_id: IssueId, given: GivenAction) -> IssueView:
    """Decides on the proposal of an issue, as `POST /api/proposals/{proposal_id}/approve` and its siblings do."""
    found = await world.issues.act(issue_id, given.action, given.reason, given.digest, read=given.read)
    if given.action == "approve" and found.proposal is not None:
        await require_not_stale(world, found.proposal)
    return found


@router.post("/{issue_id}/close", responses=_WRITE)
async def close(world: CurrentWorld, issue_id: IssueId, given: GivenReason | None = None) -> IssueView:
    """Closes an issue that belongs to no proposal. Its author may, the Chief of Staff, or a user."""
    return await world.issues.close(issue_id, given.reason if given is not None else "")


@router.post("/{issue_id}/reopen", responses=_WRITE)
async def reopen(world: CurrentWorld, issue_id: IssueId, given: GivenReason | None = None) -> IssueView:
    """Opens a closed issue again that belongs to no proposal."""
    return await world.issues.reopen(issue_id, given.reason if given is not None else "")
