"""The views of prompt tools, proposals and issues that callers get: plain data, times in milliseconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["CATALOG_FACTS", "CatalogTool", "IssueView", "ToolProposalView", "ToolVersion"]


@dataclass(frozen=True, slots=True)
class CatalogTool:
    """A prompt tool of the catalog. `layer`: global (shipped), user or project. `locked`: it is a core tool. `version`:
    its number in the registry, None for a core tool. `overrides`: the layers whose tool of the same id it hides."""

    id: str
    name: str
    archetype: str
    scope: str
    usage_notes: str
    goals: str
    guardrails: str
    prompt: str
    layer: str
    locked: bool
    digest: str
    version: int | None
    overrides: tuple[str, ...]
    approved_by: str | None
    approved_at_ms: int | None
    proposal: str | None

    def to_json(self) -> dict[str, Any]:
        """Returns the tool as JSON: the eight fields by the names that a proposal has for them, then what is known of
        the tool."""
        found = asdict(self)
        return {"usageNotes" if name == "usage_notes" else name: value for name, value in found.items()}


CATALOG_FACTS: Final = frozenset(
    ("layer", "locked", "digest", "version", "overrides", "approved_by", "approved_at_ms", "proposal")
)
"""The names in the JSON of a tool of the catalog that are no fields of a prompt tool."""


@dataclass(frozen=True, slots=True)
class ToolProposalView:
    """A proposal. `body`: the proposal as a file holds it, None in a list and after an erasure. `is_stale`: another
    version of the tool is live than the one that it changes. `checks`: `{digest, passed, report, error, at_ms}`, the
    report as `registry.harness` writes it. `review`: the last one; `missing`: what it lacks before a user may approve
    it; `chiefs`: the Chiefs of Staff of the world now, a model as `model:PROVIDER/MODEL`: without one a user acts as
    both. `model_runs`: the last run of each kind (`review`, `cases`), `{number, digest, provider, model, by, status,
    code, message, requests, tokens, cost_micros, cases, results, at_ms, ended_at_ms}`; its status is running, done or
    failed. A result is `{case, right, broken, reply}`."""

    id: str
    state: str
    kind: str
    tool: str
    name: str
    target: str
    base: str | None
    digest: str
    revision: int
    body: Mapping[str, Any] | None
    submitted_by: str
    submitted_at_ms: int
    updated_at_ms: int
    is_stale: bool
    live_digest: str | None
    checks: Mapping[str, Any] | None
    review: Mapping[str, Any] | None
    verdicts: Sequence[Mapping[str, Any]]
    missing: Sequence[str]
    chiefs: Sequence[str]
    decision: Mapping[str, Any] | None
    outcome: Mapping[str, Any] | None
    review_issue: str
    decision_issue: str
    version: int | None
    model_runs: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """An approved version of a prompt tool. `digest` names its record, `snapshot` the document of its approval."""

    tool: str
    layer: str
    version: int
    kind: str
    digest: str
    snapshot: str
    proposal: str
    revision: int
    approved_by: str
    at_ms: int
    is_live: bool


@dataclass(frozen=True, slots=True)
class IssueView:
    """An issue. `body` and `comments` are empty in a list, which has `comment_count`; `body` is None after an erasure.
    `actions`: what a user may decide by it; `proposal` and `digest`: what the decision is about."""

    id: str
    title: str
    body: str | None
    status: str
    priority: str
    assignee: str
    opened_by: str
    tags: Sequence[str]
    created_at_ms: int
    updated_at_ms: int
    closed_at_ms: int | None
    comments: Sequence[Mapping[str, Any]]
    comment_count: int
    actions: Sequence[str]
    proposal: str | None
    digest: str | None
