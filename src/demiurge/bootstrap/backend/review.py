"""Prompt tools, proposals and issues of a world, in the process that owns it.

An event of a caller goes to the unit that decides on it; the answer of the unit, if it refuses, is an event that this
module turns into an error. The units decide who may do what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from demiurge.bootstrap.backend.chiefs import chiefs_of
from demiurge.bootstrap.backend.review_views import CatalogTool, IssueView, ToolProposalView, ToolVersion
from demiurge.bootstrap.backend.unit_views import UnitViews
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Store
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.effects.erased import unless_erased
from demiurge.world.host import Host
from demiurge.world.review.issue_unit import ISSUE, ISSUE_COMMENT, ISSUE_OPEN, ISSUE_REFUSED, ISSUE_UPDATE
from demiurge.world.review.lacking import NOT_REVIEWED, is_of_chief, lacking
from demiurge.world.review.live_tools import LiveTool, damaged_tools, live_tools
from demiurge.world.review.model_run_unit import MODEL_RUN, MODEL_RUN_ASK, MODEL_RUN_REFUSED, MODEL_RUN_REQUEST
from demiurge.world.review.proposal_issues import decide_issue, review_issue
from demiurge.world.review.proposal_unit import (
    OPEN_STATES,
    PROPOSAL,
    PROPOSAL_CHECK,
    PROPOSAL_DECIDE,
    PROPOSAL_REVIEW,
    PROPOSAL_REVISE,
    PROPOSAL_SKIP,
    PROPOSAL_SUBMIT,
    PROPOSAL_VERDICT,
    PROPOSAL_WITHDRAW,
    REFUSED,
)
from demiurge.world.review.registry_unit import REGISTRY, REGISTRY_KEY, live_key
from demiurge.world.unit import Unit

__all__ = [
    "MAX_ISSUE_BODY",
    "ReviewLists",
    "approved_document",
    "body_of",
    "catalog",
    "damaged",
    "issue",
    "issues",
    "proposal",
    "proposals",
    "submit",
    "versions",
]

_MS: Final = 1_000_000
_TAKEN: Final = (
    *(PROPOSAL_SUBMIT, PROPOSAL_REVISE, PROPOSAL_WITHDRAW, PROPOSAL_REVIEW, PROPOSAL_SKIP, PROPOSAL_VERDICT),
    *(PROPOSAL_CHECK, PROPOSAL_DECIDE, ISSUE_OPEN, ISSUE_COMMENT, ISSUE_UPDATE),
    MODEL_RUN_ASK,
)
"""The events that a caller may send."""

MAX_ISSUE_BODY: Final = 100_000
"""The most characters of the body of an issue that a caller opens."""

_WITH_BODY: Final = {ISSUE_OPEN: MAX_ISSUE_BODY, PROPOSAL_SUBMIT: 1_000_000, PROPOSAL_REVISE: 1_000_000}
"""The events that bring a text, which the owner stores, and the most characters of it."""

_ERRORS: Final[Mapping[str, type[DemiurgeError]]] = {
    "core_tool_locked": UsageError,
    "role_missing": UsageError,
    "no_proposal": NotFound,
    "no_issue": NotFound,
    "no_case": NotFound,
    **dict.fromkeys(
        (
            *("wrong_state", "other_digest", "not_reviewed", "not_checked", "checks_failed", "verdict_missing"),
            *("exists", "busy", "budget_exceeded", "chief_present"),
        ),
        Conflict,
    ),
}
"""The class of the error for a code with which a unit refuses; any other is an InvalidValue."""

_OPEN: Final = (*OPEN_STATES, "approving")
_REGISTRY: Final = Unit(REGISTRY, REGISTRY_KEY)


def body_of(schema: str, value: Mapping[str, Any], text: str | None) -> bytes | None:
    """Returns the bytes of the text that an event brings; None for an event without one. Raises InvalidValue: an
    address in its place would show the caller a blob that the caller may not read."""
    if schema not in _WITH_BODY:
        if text is not None:
            raise InvalidValue(f"{schema} takes no text.", code="body_given")
        return None
    if "body_ref" in value:
        raise InvalidValue(f"{schema} takes its text from the caller, and no address of one.", code="body_ref_given")
    if text is None:
        raise InvalidValue(f"{schema} takes a text.", code="no_body")
    if len(text) > _WITH_BODY[schema]:
        raise InvalidValue(f"The text has at most {_WITH_BODY[schema]} characters.", code="text_too_long")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidValue("The text has half a surrogate pair: it is no Unicode.", code="bad_text") from None


async def submit(host: Host, schema: str, value: Mapping[str, Any], caller: Caller) -> None:
    """Sends an event to a proposal, an issue or the model runs on a proposal, and waits until its consequences are
    recorded. Raises the error that the unit answered with."""
    if schema not in _TAKEN:
        raise InvalidValue(f"{schema} is not taken here.", code="unknown_event")
    if schema == MODEL_RUN_ASK and not host.manifest.triggers.get(MODEL_RUN_REQUEST):
        raise UsageError(
            f"This world's own manifest has no plan that {MODEL_RUN_REQUEST} triggers, so no model is asked: take "
            "the plan and its grant over from the shipped app's.",
            code="older_definitions",
        )
    accepted = await host.submit(schema, dict(value), caller=caller)
    unit = Unit.parse(accepted.unit)
    for record in host.records(unit, accepted.seq):
        if record.unit_seq > accepted.seq and record.is_ingress:
            break
        if record.kind == "event" and record.body["schema"] in (REFUSED, ISSUE_REFUSED, MODEL_RUN_REFUSED):
            refused = record.body["value"]
            error = _ERRORS.get(refused["code"], InvalidValue)(refused["message"], code=refused["code"])
            if isinstance(error, Conflict) and error.code == "other_digest":
                error.details = {"digest": (host.state(unit).cell or {}).get("body_ref")}
            raise error
        if record.kind == "step" and "error" in record.body:
            raise InvalidValue(record.body["error"]["message"], code=record.body["error"]["code"])
    for settling in _touched(unit, schema):
        await host.settle(settling)


def _touched(unit: Unit, schema: str) -> list[Unit]:
    """Returns the units that an event changes, in the order in which they take it."""
    if unit.module == MODEL_RUN:
        return [unit, Unit(PROPOSAL, unit.key), *_issues_of(unit.key)]
    if unit.module != PROPOSAL:
        return [unit]
    registry = [_REGISTRY, unit] if schema == PROPOSAL_DECIDE else []
    return [unit, *registry, *_issues_of(unit.key)]


def _issues_of(proposal_id: str) -> list[Unit]:
    return [Unit(ISSUE, name(proposal_id)) for name in (review_issue, decide_issue)]


def catalog(host: Host, store: Store) -> list[CatalogTool]:
    """Returns the prompt tools of the catalog: the core tools, then the others by id."""
    return [_catalog_tool(found) for found in live_tools(host.state(_REGISTRY).cell, store.get_blob)]


def _catalog_tool(found: LiveTool) -> CatalogTool:
    tool, entry = found.tool, found.entry
    return CatalogTool(
        id=tool.id,
        name=tool.name,
        archetype=tool.archetype,
        scope=tool.scope,
        usage_notes=tool.usage_notes,
        goals=tool.goals,
        guardrails=tool.guardrails,
        prompt=tool.prompt,
        layer=found.layer,
        locked=entry is None,
        digest=tool.digest,
        version=entry["version"] if entry is not None else None,
        overrides=found.overrides,
        approved_by=entry["by"] if entry is not None else None,
        approved_at_ms=entry["at"] // _MS if entry is not None else None,
        proposal=entry["proposal"] if entry is not None else None,
    )


def damaged(host: Host, store: Store) -> list[str]:
    """Returns a sentence for each approved tool that is not in the catalog because its text can't be read."""
    return damaged_tools(host.state(_REGISTRY).cell, store.get_blob)


def versions(host: Host, tool_id: str | None) -> list[ToolVersion]:
    """Returns the approved versions of a tool (None: of all), newest first."""
    cell = host.state(_REGISTRY).cell
    live: Mapping[str, Any] = cell["live"] if cell is not None else {}
    found = [entry for entry in cell["history"] if tool_id in (None, entry["tool"])] if cell is not None else []
    return [
        ToolVersion(
            **{name: entry[name] for name in ("tool", "layer", "version", "kind", "digest", "snapshot", "proposal")},
            revision=entry["revision"],
            approved_by=entry["by"],
            at_ms=entry["at"] // _MS,
            is_live=live.get(live_key(entry["layer"], entry["tool"]), {}).get("version") == entry["version"],
        )
        for entry in reversed(found)
    ]


def approved_document(host: Host, store: Store, lists: ReviewLists, ref: str) -> dict[str, Any]:
    """Returns the document of an approval, or the record of an approved tool. Raises NotFound for any other address,
    Damaged."""
    if not any(ref in addresses for addresses in lists.approved.read(host, store)):
        raise NotFound(f"There is no approved version of a prompt tool at {ref}.")
    found: dict[str, Any] = _json(store, ref)
    return found


class ReviewLists:
    """The lists of proposals, issues and approved addresses of a world, as they were read last."""

    def __init__(self) -> None:
        self.proposals = UnitViews(PROPOSAL, _proposal_view)
        self.issues = UnitViews(ISSUE, _issue_view)
        self.approved = UnitViews(REGISTRY, _approved)


def _approved(_key: str, cell: Mapping[str, Any]) -> frozenset[str]:
    """Returns the addresses of the documents of all approvals, and of the approved tools."""
    return frozenset(entry[name] for entry in cell["history"] for name in ("snapshot", "digest"))


def proposals(
    host: Host, store: Store, lists: ReviewLists, now_ns: int, state: str | None, tool: str | None
) -> list[ToolProposalView]:
    """Returns the proposals in this state (None: in any) for this tool, newest first, without bodies and reports."""
    live, chiefs = _live(host), chiefs_of(store, host.manifest.settings, now_ns)
    found = [
        _now(view, live, chiefs)
        for view in lists.proposals.read(host, store)
        if state in (None, view.state) and tool in (None, view.tool)
    ]
    return sorted(found, key=lambda view: (-view.submitted_at_ms, view.id))


def proposal(host: Host, store: Store, now_ns: int, proposal_id: str) -> ToolProposalView:
    """Returns a proposal with its body and the report of its checks, each None if it was erased. Raises NotFound
    (`no_proposal`)."""
    cell = _cell(host, PROPOSAL, proposal_id)
    if cell is None:
        hint = "`demiurge tools proposals` lists them."
        raise NotFound(f"There is no proposal {proposal_id}; {hint}", code="no_proposal")
    view = _proposal_view(proposal_id, cell, store, _cell(host, MODEL_RUN, proposal_id))
    return _now(view, _live(host), chiefs_of(store, host.manifest.settings, now_ns))


def _proposal_view(
    proposal_id: str,
    cell: Mapping[str, Any],
    store: Store | None = None,
    runs: Mapping[str, Any] | None = None,
) -> ToolProposalView:
    """Returns the view of a proposal; with `store` the one that has the body and the report. `runs`: the cell of its
    model runs. What depends on now is no part of it (`_now`)."""
    checks = _dated(cell["checks"])
    if checks is not None:
        report_ref = checks.pop("report_ref")
        checks["report"] = _unless_erased(store, report_ref)
    return ToolProposalView(
        id=proposal_id,
        **{
            name: cell[name] for name in ("state", "kind", "tool", "name", "target", "base", "revision", "submitted_by")
        },
        digest=cell["body_ref"],
        body=_unless_erased(store, cell["body_ref"]),
        submitted_at_ms=cell["submitted_at"] // _MS,
        updated_at_ms=cell["updated_at"] // _MS,
        is_stale=False,
        live_digest=None,
        checks=checks,
        review=_dated(cell["review"]),
        verdicts=[_dated(verdict) or {} for verdict in cell["verdicts"] if verdict["digest"] == cell["body_ref"]],
        missing=[sentence for _, sentence in lacking(cell, ())] if cell["state"] in _OPEN else [],
        chiefs=[],
        decision=_dated(cell["decision"]),
        outcome=dict(cell["outcome"]) if cell["outcome"] is not None else None,
        review_issue=review_issue(proposal_id),
        decision_issue=decide_issue(proposal_id),
        version=cell["version"],
        model_runs={kind: _model_run(run) for kind, run in runs["runs"].items()} if runs is not None else {},
    )


def _now(view: ToolProposalView, live: Mapping[str, Any], chiefs: list[str]) -> ToolProposalView:
    """Returns the view with the tool that is live now, and the Chiefs of Staff that there are now."""
    now = live.get(live_key(view.target, view.tool), {}).get("digest")
    waits_for_chief = view.review is not None and not is_of_chief(view.review, chiefs) and view.state in _OPEN
    missing = [NOT_REVIEWED, *view.missing] if waits_for_chief and NOT_REVIEWED not in view.missing else view.missing
    is_stale = view.state in _OPEN and now != view.base
    return replace(view, live_digest=now, is_stale=is_stale, chiefs=chiefs, missing=missing)


def _model_run(run: Mapping[str, Any]) -> dict[str, Any]:
    found = _dated(run) or {}
    ended = found.pop("ended_at")
    results = [dict(result) for result in found.pop("results")]
    return {
        **found,
        "results": results,
        "cases": list(found["cases"]),
        "ended_at_ms": ended // _MS if ended is not None else None,
    }


def issues(host: Host, store: Store, lists: ReviewLists) -> list[IssueView]:
    """Returns all issues, newest first, without bodies and comments."""
    return sorted(lists.issues.read(host, store), key=lambda view: (-view.created_at_ms, view.id))


def issue(host: Host, store: Store, issue_id: str) -> IssueView:
    """Returns an issue with its body, None if it was erased, and comments. Raises NotFound (`no_issue`)."""
    cell = _cell(host, ISSUE, issue_id)
    if cell is None:
        raise NotFound(f"There is no issue {issue_id}; `demiurge issues ls` lists them.", code="no_issue")
    return _issue_view(issue_id, cell, store)


def _issue_view(issue_id: str, cell: Mapping[str, Any], store: Store | None = None) -> IssueView:
    body = unless_erased(store.get_blob, Ref(cell["body_ref"])) if store is not None else b""
    return IssueView(
        id=issue_id,
        **{name: cell[name] for name in ("title", "status", "priority", "assignee", "opened_by", "proposal", "digest")},
        body=body.decode() if body is not None else None,
        tags=list(cell["tags"]),
        actions=list(cell["actions"]),
        created_at_ms=cell["created_at"] // _MS,
        updated_at_ms=cell["updated_at"] // _MS,
        closed_at_ms=cell["closed_at"] // _MS if cell["closed_at"] is not None else None,
        comments=[_dated(comment) or {} for comment in cell["comments"]] if store is not None else [],
        comment_count=len(cell["comments"]),
    )


def _cell(host: Host, module: str, key: str) -> Mapping[str, Any] | None:
    return host.state(Unit(module, key)).cell if key and key.isprintable() else None


def _live(host: Host) -> Mapping[str, Any]:
    cell = host.state(_REGISTRY).cell
    return cell["live"] if cell is not None else {}


def _dated(node: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns a part of a cell with its time in milliseconds."""
    if node is None:
        return None
    found = {name: value for name, value in node.items() if name != "at"}
    return {**found, "at_ms": node["at"] // _MS}


def _unless_erased(store: Store | None, ref: str | None) -> Any:
    data = unless_erased(store.get_blob, Ref(ref)) if store is not None and ref is not None else None
    return canonical_json.parse(data) if data is not None else None


def _json(store: Store, ref: str) -> Any:
    return canonical_json.parse(store.get_blob(Ref(ref)))
