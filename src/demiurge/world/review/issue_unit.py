"""The module `sys/Issue@1`: one unit for each issue.

A person or an agent opens issues and comments on them. The issue of a proposal is opened and changed by the proposal's
unit alone, so that nobody closes it or gives it actions by hand; comments are open to all. Every refusal is an event.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from demiurge.world.reducer import Emit, Reducer, ReducerContext, Step

__all__ = [
    "DECIDE_PREFIX",
    "ISSUE",
    "ISSUE_COMMENT",
    "ISSUE_OPEN",
    "ISSUE_REFUSED",
    "ISSUE_UPDATE",
    "PRIORITIES",
    "REVIEW_PREFIX",
    "STATUSES",
    "is_plain_id",
    "issue_reducer",
]

ISSUE: Final = "sys/Issue@1"
ISSUE_OPEN: Final = "sys/IssueOpen@1"
ISSUE_COMMENT: Final = "sys/IssueComment@1"
ISSUE_UPDATE: Final = "sys/IssueUpdate@1"
ISSUE_REFUSED: Final = "sys/IssueRefused@1"

STATUSES: Final = ("open", "waiting-on-user", "closed")
PRIORITIES: Final = ("low", "normal", "high", "urgent")

REVIEW_PREFIX: Final = "review-"
DECIDE_PREFIX: Final = "decide-"
"""The ids of the two issues of a proposal are one of these and the proposal's id. Only its unit opens such an issue."""

_PROPOSALS: Final = "sys/ToolProposal@1/"
_MAX_TITLE: Final = 200
_MAX_COMMENT: Final = 20_000
_MAX_TAGS: Final = 20
_DONE: Final = {"closed": "close", "open": "reopen"}
"""The action of the comment with the reason, by the status that the issue gets."""

State = Mapping[str, Any]


def reduce(state: State | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of an issue."""
    tag, value = event["$tag"], event["$value"]
    if context.origin != "external":
        return _from_unit(state, tag, value, context)
    if not {"agent", "approver", "chief", "user"} & set(context.stamp.caller.roles):
        return _refused(context, "role_missing", "Only an agent, an approver, the Chief or a user writes issues.")
    if tag == "Open":
        return _opened(state, value, context)
    if state is None:
        return _refused(context, "no_issue", "There is no such issue.")
    if tag == "Comment":
        if not _is_comment(value["body"]):
            return _refused(context, "invalid_issue", f"A comment has 1 to {_MAX_COMMENT} characters.")
        return _commented(value["body"], None, context.stamp.actor, context)
    return _updated(state, value, context)


def _opened(state: State | None, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Opens an issue that belongs to no proposal."""
    if state is not None:
        return _refused(context, "exists", "There is an issue with this id already.")
    tags = sorted({tag.strip() for tag in value["tags"]})
    is_of_proposal = value["proposal"] is not None or context.key.startswith((REVIEW_PREFIX, DECIDE_PREFIX))
    if is_of_proposal or value["actions"] or value["status"] != "open":
        return _refused(context, "not_allowed", "Only the unit of a proposal opens its issues.")
    if not is_plain_id(context.key):
        return _refused(context, "invalid_issue", "The id of an issue has 1 to 128 letters, digits, '_' and '-'.")
    if not value["title"].isprintable() or not 1 <= len(value["title"].strip()) <= len(value["title"]) <= _MAX_TITLE:
        return _refused(context, "invalid_issue", f"A title has 1 to {_MAX_TITLE} printable characters.")
    if value["priority"] not in PRIORITIES:
        return _refused(context, "invalid_issue", f"A priority is one of {', '.join(PRIORITIES)}.")
    if len(tags) > _MAX_TAGS or not all(tag.isprintable() and 1 <= len(tag) <= 60 for tag in tags):
        return _refused(context, "invalid_issue", f"An issue has at most {_MAX_TAGS} tags of 1 to 60 characters.")
    return Step(set=_made({**value, "tags": tags, "opened_by": context.stamp.actor}, context))


def is_plain_id(text: str) -> bool:
    """Returns whether a text can be the id of an issue or a proposal, so that each can be named in an address."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,128}", text) is not None


def _from_unit(state: State | None, tag: str, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes what the unit of a proposal says about its own issues, and nothing else."""
    named = value["proposal"] if tag == "Open" else state["proposal"] if state is not None else None
    if named is None or context.sender != f"{_PROPOSALS}{named}":
        return Step()
    if tag == "Comment":
        return _commented(value["body"], value["action"], value["by"] or "system", context)
    if tag == "Open":
        if state is not None and state["proposal"] != named:
            return Step()
        kept = {"created_at": state["created_at"]} if state is not None else {}
        return Step(set={**_made(value, context), **kept})
    changed = {name: value[name] for name in ("status", "assignee", "actions") if value[name] is not None}
    return Step(set={**changed, **_dates(value["status"], context)})


def _updated(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Closes, opens again or assigns an issue that belongs to no proposal."""
    if not {"chief", "user"} & set(context.stamp.caller.roles) and context.stamp.actor != state["opened_by"]:
        return _refused(context, "role_missing", "Only its author, the Chief of Staff or a user changes an issue.")
    if state["proposal"] is not None:
        return _refused(context, "not_allowed", "This issue belongs to a proposal: decide on the proposal.")
    if value["actions"] or value["status"] not in (None, "open", "closed"):
        return _refused(context, "not_allowed", "An issue is opened or closed by hand; actions belong to proposals.")
    changed = {name: value[name] for name in ("status", "assignee") if value[name] is not None}
    step = Step(set={**changed, **_dates(value["status"], context)})
    reason = value.get("reason")
    if reason is None:
        return step
    if not _is_comment(reason):
        return _refused(context, "invalid_issue", f"A reason has 1 to {_MAX_COMMENT} characters.")
    remark = _commented(reason, _DONE.get(value["status"]), context.stamp.actor, context)
    return replace(step, append=remark.append)


def _is_comment(text: str) -> bool:
    return 1 <= len(text.strip()) <= len(text) <= _MAX_COMMENT


def _commented(body: str, action: str | None, by: str, context: ReducerContext) -> Step:
    comment = {"by": by, "at": context.stamp.time_ns, "body": body, "action": action}
    return Step(append={"comments": [comment]}, set={"updated_at": context.stamp.time_ns})


def _made(value: Mapping[str, Any], context: ReducerContext) -> dict[str, Any]:
    names = ("title", "body_ref", "assignee", "opened_by", "tags", "priority", "actions", "proposal", "digest")
    found = {name: value[name] for name in names} | {"status": value["status"]}
    return {**found, "created_at": context.stamp.time_ns, **_dates(value["status"], context)}


def _dates(status: str | None, context: ReducerContext) -> dict[str, Any]:
    now_ns = context.stamp.time_ns
    closed = {} if status is None else {"closed_at": now_ns if status == "closed" else None}
    return {"updated_at": now_ns, **closed}


def _refused(context: ReducerContext, code: str, message: str) -> Step:
    return Step(events=[Emit(ISSUE_REFUSED, {"issue": context.key, "code": code, "message": message})])


def issue_reducer() -> Reducer:
    """Returns the code of the module."""
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
