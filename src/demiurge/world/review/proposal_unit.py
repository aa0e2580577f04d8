"""The module `sys/ToolProposal@1`: one unit for each proposal, with its reviews, checks, verdicts and decision.

    chief_review -> user_decision -> approving -> approved
         ^               |               |
         |               v               v
      returned       rejected          stale            (withdrawn: from every open state)

Nobody ships a prompt tool alone. The Chief of Staff reviews (`world.review.lacking`), the effect `registry.check` runs
the checks, and only a user approves, who says that they have read the text. A review, a check, a verdict and a decision
name the digest of the proposal that they are about, so none of them holds for a later revision.

An approval makes a snapshot, whose blob is durable before the record that names it, and sends it to the registry's
unit. The registry takes it or answers that the live tool has changed. Every refusal is an event, never an error that
stops the unit, and never silence.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from demiurge.errors import DemiurgeError
from demiurge.registry.proposal import ToolProposal
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.world.reducer import EffectRequest, Emit, Reducer, ReducerContext, Step
from demiurge.world.review.issue_text import proposal_text, review_text
from demiurge.world.review.issue_unit import ISSUE_COMMENT, ISSUE_UPDATE, is_plain_id
from demiurge.world.review.lacking import is_of_chief, lacking
from demiurge.world.review.proposal_body import publication, read_body, require_own_id
from demiurge.world.review.proposal_issues import (
    decision_closed,
    decision_comment,
    decision_opened,
    decision_text,
    issues_closed,
    review_closed,
    review_issue,
    review_opened,
)
from demiurge.world.review.snapshot import snapshot_of

__all__ = [
    "CHECK",
    "OPEN_STATES",
    "PROPOSAL",
    "PROPOSAL_ASSESS",
    "PROPOSAL_CHECK",
    "PROPOSAL_DECIDE",
    "PROPOSAL_REVIEW",
    "PROPOSAL_REVISE",
    "PROPOSAL_SKIP",
    "PROPOSAL_SUBMIT",
    "PROPOSAL_VERDICT",
    "PROPOSAL_WITHDRAW",
    "PUBLISH",
    "REFUSED",
    "proposal_reducer",
]

PROPOSAL: Final = "sys/ToolProposal@1"
PROPOSAL_SUBMIT: Final = "sys/ToolProposalSubmit@1"
PROPOSAL_REVISE: Final = "sys/ToolProposalRevise@1"
PROPOSAL_REVIEW: Final = "sys/ToolProposalReview@1"
PROPOSAL_ASSESS: Final = "sys/ToolProposalAssess@1"
"""The event that brings the review of a model."""
PROPOSAL_SKIP: Final = "sys/ToolProposalSkip@1"
PROPOSAL_VERDICT: Final = "sys/ToolProposalVerdict@1"
PROPOSAL_CHECK: Final = "sys/ToolProposalCheck@1"
PROPOSAL_DECIDE: Final = "sys/ToolProposalDecide@1"
PROPOSAL_WITHDRAW: Final = "sys/ToolProposalWithdraw@1"
REFUSED: Final = "sys/ToolProposalRefused@1"
"""The event that answers what a proposal did not take: a code and a sentence."""
PUBLISH: Final = "sys/ToolRegistryPublish@1"

CHECK: Final = "registry.check"

OPEN_STATES: Final = ("chief_review", "user_decision", "returned")
"""The states in which a proposal waits for somebody."""

_RECOMMENDATIONS: Final = ("approve", "modify", "reject")
_VERDICTS: Final = ("approve", "needs_changes", "reject")
_READ_IT: Final = (
    'Read the whole text of the tool and say so: `--read`, `"read": true`, or the tick on the page. No check can tell '
    "that it is safe."
)
_MAX_TEXT: Final = 4000
_MODEL_RUNS: Final = "sys/ModelRun@1/"
_REGISTRY: Final = "sys/ToolRegistry@1/main"

State = Mapping[str, Any]


def reduce(state: State | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of a proposal."""
    tag, value = event["$tag"], event["$value"]
    if tag in _FROM_WORLD:
        if context.origin == "external":
            return _refused(context, "origin_not_allowed", f"{tag} is reported by the world itself.")
        return _FROM_WORLD[tag](state, value, context) if state is not None else Step()
    if tag == "Submit":
        return _submitted(state, value, context)
    if state is None:
        return _refused(context, "no_proposal", "There is no such proposal.")
    is_allowed, sentence = _MAY[tag]
    if not is_allowed(state, value, context):
        return _refused(context, "role_missing", sentence)
    if value.get("digest") not in (None, state["body_ref"]):
        return _refused(context, "other_digest", "The proposal was changed after you read it: read it again.")
    problem = _too_long(value)
    if problem is not None:
        return _refused(context, "text_too_long", problem)
    try:
        return _FROM_PEOPLE[tag](state, value, context)
    except DemiurgeError as error:
        return _refused(context, error.code, error.message)


# -- authors -----------------------------------------------------------------------------------------------------------


def _submitted(state: State | None, value: Mapping[str, Any], context: ReducerContext) -> Step:
    by, roles = _author(context)
    if not {"agent", "user"} & set(roles):
        return _refused(context, "role_missing", "Only an agent or a user proposes prompt tools.")
    if state is not None:
        return _refused(context, "exists", "There is a proposal with this id already.")
    if not is_plain_id(context.key):
        return _refused(context, "invalid_proposal", "The id of a proposal has 1 to 128 letters, digits, '_' and '-'.")
    try:
        proposal = read_body(value["body_ref"], context)
        require_own_id(proposal, context)
    except DemiurgeError as error:
        return _refused(context, error.code, error.message)
    made: dict[str, Any] = {
        "kind": proposal.kind,
        "tool": proposal.tool.id,
        "target": proposal.target,
        "submitted_by": by,
    }
    made |= {"submitted_roles": list(roles), "submitted_at": context.stamp.time_ns}
    return _in_review({**made, "revision": 1}, proposal, by, context)


def _revised(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    if state["state"] not in (*OPEN_STATES, "stale"):
        return _wrong_state(state, context, "be revised")
    proposal = read_body(value["body_ref"], context)
    require_own_id(proposal, context)
    if (proposal.tool.id, proposal.kind, proposal.target) != (state["tool"], state["kind"], state["target"]):
        return _refused(context, "other_tool", "A revision keeps the tool's id, the kind and the target.")
    return _in_review({"revision": state["revision"] + 1}, proposal, _author(context)[0], context)


def _in_review(changed: dict[str, Any], proposal: ToolProposal, by: str, context: ReducerContext) -> Step:
    """Puts a proposal, or a new revision of one, before the Chief of Staff, and has it checked."""
    digest, now_ns = proposal.digest, context.stamp.time_ns
    entry = {"revision": changed["revision"], "digest": digest, "by": by, "at": now_ns}
    body = proposal_text(proposal, context.key, changed["revision"], by).encode()
    return Step(
        set={
            **changed,
            "state": "chief_review",
            "body_ref": digest,
            "name": proposal.tool.name,
            "base": proposal.base,
            "manual": [case.id for case in proposal.test_cases if case.is_manual],
            "updated_at": now_ns,
            **dict.fromkeys(("checks", "review", "decision", "outcome")),
        },
        append={"revisions": [entry]},
        blobs=[body],
        events=[
            decision_closed(context.key),
            review_opened(context.key, proposal, ref_of(body), by),
        ],
        effects=[_check(context.key, digest)],
    )


def _withdrawn(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    if state["state"] not in OPEN_STATES:
        return _wrong_state(state, context, "be withdrawn")
    return _ended(
        state,
        "withdrawn",
        {"verdict": "withdraw", "by": _author(context)[0], "reason": value["reason"], "read": False},
        context,
    )


def _author(context: ReducerContext) -> tuple[str, tuple[str, ...]]:
    """Returns who acts, by the transport. What a running tool sends is an agent's, whoever the agent works for."""
    if context.origin == "external":
        return context.stamp.actor, context.stamp.caller.roles
    return f"agent:{context.sender}", ("agent",)


# -- reviewers ---------------------------------------------------------------------------------------------------------


def _reviewed(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    if state["state"] not in ("chief_review", "user_decision"):
        return _wrong_state(state, context, "be reviewed")
    if value["recommend"] not in _RECOMMENDATIONS:
        return _refused(context, "invalid_review", f"A review recommends one of {', '.join(_RECOMMENDATIONS)}.")
    answers = {name: value[name].strip() for name in ("sensible", "overlaps", "violates", "changes")}
    if not all(answers.values()):
        return _refused(context, "invalid_review", "A review answers all four questions.")
    review = {"kind": "chief", "by": context.stamp.actor, "recommend": value["recommend"], **answers}
    return _take_review(state, {**review, "notes": value["notes"], "model": None}, context, counts=True)


def _assessed(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes the review of a model, which a user or the Chief of Staff asked for. It replaces no person's review."""
    if context.origin != "unit" or context.sender != f"{_MODEL_RUNS}{context.key}":
        return Step()
    if value["digest"] != state["body_ref"]:
        return _refused(context, "other_digest", "The proposal was changed while the model read it.")
    if state["state"] not in ("chief_review", "user_decision"):
        return _wrong_state(state, context, "be reviewed")
    if state["review"] is not None and state["review"]["kind"] == "chief":
        return _refused(context, "reviewed", "A person has reviewed this revision.")
    names = ("by", "recommend", "sensible", "overlaps", "violates", "changes", "notes", "provider", "model")
    review = {"kind": "model", **{name: value[name] for name in names}}
    return _take_review(state, review, context, counts=is_of_chief(review, value["chiefs"]))


def _skipped(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes the word of a user who acts as both Chief and user, where there is no Chief of Staff."""
    if state["state"] != "chief_review":
        return _wrong_state(state, context, "skip the review")
    if value["chiefs"]:
        who = ", ".join(value["chiefs"])
        return _refused(context, "chief_present", f"This world has a Chief of Staff, who reviews the proposal: {who}.")
    if not value["reason"].strip():
        return _refused(context, "reason_missing", "Say why the review is skipped: it is recorded.")
    nothing = dict.fromkeys(("sensible", "overlaps", "violates", "changes"), "")
    review = {"kind": "user", "by": context.stamp.actor, "recommend": "", **nothing}
    return _take_review(state, {**review, "notes": value["reason"], "model": None}, context, counts=True)


def _take_review(state: State, review: Mapping[str, Any], context: ReducerContext, *, counts: bool) -> Step:
    """Keeps a review. If it `counts` as the Chief's, the proposal goes from the Chief of Staff to the user."""
    now_ns, proposal = context.stamp.time_ns, read_body(state["body_ref"], context)
    review = {**review, "digest": state["body_ref"], "at": now_ns}
    text = review_text(review)
    comment = {"issue": review_issue(context.key), "body": text, "action": "tool-review", "by": review["by"]}
    step = Step(
        set={"review": review, "updated_at": now_ns},
        append={"reviews": [review]},
        events=[Emit(ISSUE_COMMENT, comment)],
    )
    if not counts:
        return step
    body = f"{text}\n\n{proposal_text(proposal, context.key, state['revision'], state['submitted_by'])}".encode()
    opened = decision_opened(context.key, state, ref_of(body), review["by"], _VERDICTS)
    return replace(
        step,
        set={**step.set, "state": "user_decision"},
        blobs=[body],
        events=[*step.events, review_closed(context.key), opened],
    )


def _judged(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    if state["state"] not in OPEN_STATES:
        return _wrong_state(state, context, "take a verdict")
    if value["case"] not in state["manual"]:
        return _refused(context, "no_case", f"This proposal has no manual test case {value['case']}.")
    if not value["note"].strip():
        return _refused(context, "note_missing", "A verdict has a note: what was looked at, and what was seen.")
    verdict = {name: value[name] for name in ("case", "passed", "note")}
    verdict |= {"digest": state["body_ref"], "by": context.stamp.actor, "at": context.stamp.time_ns}
    return Step(append={"verdicts": [verdict]}, set={"updated_at": context.stamp.time_ns})


def _asked_to_check(state: State, _value: Mapping[str, Any], context: ReducerContext) -> Step:
    if state["state"] not in OPEN_STATES:
        return _wrong_state(state, context, "be checked")
    return Step(effects=[_check(context.key, state["body_ref"])])


def _check(proposal_id: str, digest: Ref) -> EffectRequest:
    return EffectRequest(CHECK, {"proposal": proposal_id, "body_ref": digest}, key=digest)


def _checked(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes the outcome of the checks. What they say of an earlier revision counts for nothing."""
    if context.origin != "derived" or value["key"] != state["body_ref"] or state["state"] not in OPEN_STATES:
        return Step()
    found, error = value["payload"], value["error"]
    checks = {
        "digest": state["body_ref"],
        "passed": found is not None and found["passed"] and found["digest"] == state["body_ref"],
        "report_ref": found["report_ref"] if found is not None else None,
        "error": f"{error['message']} ({error['code']})" if error is not None else None,
        "at": context.stamp.time_ns,
    }
    return Step(set={"checks": checks, "updated_at": context.stamp.time_ns})


# -- the user's decision -----------------------------------------------------------------------------------------------


def _decided(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    verdict = value["verdict"]
    if verdict not in _VERDICTS:
        return _refused(context, "invalid_verdict", f"A verdict is one of {', '.join(_VERDICTS)}.")
    if state["state"] not in ("chief_review", "user_decision"):
        return _wrong_state(state, context, "be decided on")
    decision = {"verdict": verdict, "by": context.stamp.actor, "reason": value["reason"], "read": value["read"]}
    if verdict == "approve":
        return _approved(state, decision, value["chiefs"], context)
    if not value["reason"].strip():
        return _refused(context, "reason_missing", "Say why, so that the author knows what to change.")
    if verdict == "reject":
        return _ended(state, "rejected", decision, context)
    back = {"issue": review_issue(context.key), "status": "open", "assignee": state["submitted_by"], "actions": []}
    return Step(
        set={"state": "returned", "decision": _dated(state, decision, context), "updated_at": context.stamp.time_ns},
        events=[decision_comment(context.key, decision), Emit(ISSUE_UPDATE, back), decision_closed(context.key)],
    )


def _approved(state: State, decision: Mapping[str, Any], chiefs: Sequence[str], context: ReducerContext) -> Step:
    """Makes the snapshot, and asks the registry to take the tool."""
    missing = lacking(state, chiefs)
    if missing:
        return _refused(context, *missing[0])
    if not decision["read"]:
        return _refused(context, "not_read", _READ_IT)
    proposal = read_body(state["body_ref"], context)
    require_own_id(proposal, context)
    decision = _dated(state, decision, context)
    snapshot = snapshot_of(state, proposal, decision, context)
    record = canonical_json.encode(proposal.tool.to_json())
    return Step(
        set={"state": "approving", "decision": decision, "updated_at": context.stamp.time_ns},
        blobs=[snapshot, record],
        events=[Emit(PUBLISH, publication(context.key, state, proposal, decision, ref_of(snapshot)))],
    )


def _published(state: State, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes the registry's answer: the version is live, or the live tool has changed."""
    if context.sender != _REGISTRY or state["state"] != "approving" or value["digest"] != state["body_ref"]:
        return Step()
    if value["code"] is None:
        text = f"{decision_text(state['decision'])} It is live as version {value['version']}."
        return Step(
            set={"state": "approved", "version": value["version"], "updated_at": context.stamp.time_ns},
            events=issues_closed(context.key, text, state["decision"]["by"]),
        )
    outcome = {"code": value["code"], "message": value["message"]}
    return Step(
        set={"state": "stale", "outcome": outcome, "updated_at": context.stamp.time_ns},
        events=issues_closed(context.key, f"It was not taken over: {value['message']}"),
    )


def _ended(state: State, ends_as: str, decision: Mapping[str, Any], context: ReducerContext) -> Step:
    return Step(
        set={"state": ends_as, "decision": _dated(state, decision, context), "updated_at": context.stamp.time_ns},
        events=issues_closed(context.key, decision_text(decision), decision["by"]),
    )


# -- what all have in common ------------------------------------------------------------------------------------------


def _dated(state: State, decision: Mapping[str, Any], context: ReducerContext) -> dict[str, Any]:
    return {**decision, "digest": state["body_ref"], "at": context.stamp.time_ns}


def _is_person(context: ReducerContext, *roles: str) -> bool:
    """Returns whether the transport says that this comes from outside, from a caller with exactly one of the roles."""
    return context.origin == "external" and not set(roles).isdisjoint(context.stamp.caller.roles)


def _is_author_or_user(state: State, _value: Mapping[str, Any], context: ReducerContext) -> bool:
    by, roles = _author(context)
    return by == state["submitted_by"] or "user" in roles


def _may_decide(_state: State, value: Mapping[str, Any], context: ReducerContext) -> bool:
    return _is_person(context, "user") or (value["verdict"] == "needs_changes" and _is_person(context, "chief"))


def _too_long(value: Mapping[str, Any]) -> str | None:
    long = [name for name, text in value.items() if isinstance(text, str) and len(text) > _MAX_TEXT]
    return f"{long[0]} has at most {_MAX_TEXT} characters." if long else None


def _wrong_state(state: State, context: ReducerContext, what: str) -> Step:
    return _refused(context, "wrong_state", f"The proposal is {state['state']}, so it can not {what}.")


def _refused(context: ReducerContext, code: str, message: str) -> Step:
    return Step(events=[Emit(REFUSED, {"proposal_id": context.key, "code": code, "message": message})])


_FROM_WORLD: Final = {"Checked": _checked, "Published": _published, "Assess": _assessed}
_FROM_PEOPLE: Final = {
    "Revise": _revised,
    "Withdraw": _withdrawn,
    "Review": _reviewed,
    "Skip": _skipped,
    "Verdict": _judged,
    "Check": _asked_to_check,
    "Decide": _decided,
}

_MAY: Final[Mapping[str, tuple[Callable[[State, Mapping[str, Any], ReducerContext], bool], str]]] = {
    "Revise": (_is_author_or_user, "Only its author or a user revises a proposal."),
    "Withdraw": (_is_author_or_user, "Only its author or a user withdraws a proposal."),
    "Review": (
        lambda _state, _value, context: _is_person(context, "chief"),
        "Only the Chief of Staff reviews a proposal.",
    ),
    "Skip": (
        lambda _state, _value, context: _is_person(context, "user"),
        "Only a user goes on without a Chief of Staff.",
    ),
    "Verdict": (
        lambda _state, _value, context: _is_person(context, "user", "chief"),
        "Only a person records a verdict.",
    ),
    "Check": (
        lambda _state, _value, context: _is_person(context, "agent", "chief", "user"),
        "Only an agent, the Chief of Staff or a user has a proposal checked.",
    ),
    "Decide": (_may_decide, "Only a user decides on a proposal."),
}
"""The callers that may send an event to a proposal, and the sentence for all others. It is said before anything else,
so a caller without the role learns nothing about the digest or the state."""


def proposal_reducer() -> Reducer:
    """Returns the code of the module."""
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
