"""Approvals: a person's decision about one exact call, used once and valid for a limited time.

The decision is bound to run, tenant, actor, call id, tool, spec hash, arguments, connection and the rule of the tool
policy that requires the approval. A call that differs in any of them needs another decision. The policy may name the
roles that decide. The store only keeps decisions; the policy decides again at every call and may still deny
(`docs/policy.md`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Literal, Protocol

from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.tools.policy import Approvers
from demiurge.values import cbor
from demiurge.values.clock import Clock, SystemClock
from demiurge.values.forks import lock_over_forks

__all__ = [
    "ApprovalDecision",
    "ApprovalOutcome",
    "ApprovalPending",
    "ApprovalRequest",
    "ApprovalStore",
    "InMemoryApprovals",
    "may_decide",
    "require_approver",
]

ApprovalOutcome = Literal["approved", "rejected", "expired"]

_DEFAULT_TTL_MS = 24 * 60 * 60 * 1000
_MS = 1_000_000
_NOT_BOUND = {"approval_id", "approvers"}
"""Fields that are not part of the binding. The rule digest covers the approvers."""


def may_decide(roles: Collection[str], approvers: Approvers) -> bool:
    """Returns whether a person with these roles may decide on a call with these approvers."""
    return all(any(role in roles for role in needed) for needed in approvers)


def require_approver(roles: Collection[str], approvers: Approvers, approval_id: str) -> None:
    """Raises UsageError (`not_an_approver`) unless `may_decide`."""
    for needed in approvers:
        if not may_decide(roles, (needed,)):
            who = " or ".join(needed)
            raise UsageError(
                f"Approval {approval_id} needs a decision by a person with the role {who}.", code="not_an_approver"
            )


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The question whether one call may run. `approval_id` names a decision if the caller has one; it is not part of
    the binding. `connection_id`: the connection that the tool would use, if it needs one. `approvers`: who may
    decide; a person needs at least one role of each list, and an empty tuple means anybody who may decide at all."""

    tool_call_id: str
    tool_id: str
    spec_hash: str
    args_digest: str
    actor: str
    rule_digest: str
    approval_id: str | None = None
    connection_id: str | None = None
    tenant: str = ""
    run_id: str = ""
    approvers: Approvers = ()

    @property
    def binding(self) -> str:
        """The digest of everything that a decision is bound to."""
        bound = [getattr(self, entry.name) for entry in fields(self) if entry.name not in _NOT_BOUND]
        return cbor.node_ref(bound)

    @property
    def own_id(self) -> str:
        """The id of this request, made from its binding. A store without ids of its own keeps the request under it."""
        return f"apr_{self.binding.removeprefix('sha256:')[:24]}"


@dataclass(frozen=True, slots=True)
class ApprovalPending:
    """There is no decision yet; the store keeps the request under `approval_id`."""

    approval_id: str


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The decision on a request: who, why, when. Times are milliseconds since 1970; from `expires_at_ms` on it is
    void. `roles`: the person's roles, which an approval needs if the request names approvers."""

    approval_id: str
    outcome: ApprovalOutcome
    by: str
    reason: str
    decided_at_ms: int
    expires_at_ms: int
    roles: tuple[str, ...] = ()


class ApprovalStore(Protocol):
    """A store of decisions. `take` returns the decision on a request, once. Without a decision, `take` may keep the
    request as pending; it then returns an ApprovalPending with the id it is kept under, or None if that is the
    request's `own_id`. `take` must be atomic: of two equal calls only one gets the decision."""

    def take(self, request: ApprovalRequest) -> ApprovalDecision | ApprovalPending | None: ...


class InMemoryApprovals:
    """An approval store for one process; safe to use from several threads.

    A request without a decision is kept under its `own_id`. `ttl_ms`: how long a decision is valid, and how long a
    request waits for one before it is dropped. Raises InvalidValue for a `ttl_ms` below 1."""

    def __init__(self, clock: Clock | None = None, ttl_ms: int = _DEFAULT_TTL_MS) -> None:
        if ttl_ms < 1:
            raise InvalidValue("must be at least 1", path="ttl_ms")
        self._clock = clock if clock is not None else SystemClock()
        self._ttl_ms = ttl_ms
        self._lock = lock_over_forks()
        self._pending: dict[str, tuple[ApprovalRequest, int]] = {}
        self._decided: dict[str, ApprovalDecision] = {}

    def take(self, request: ApprovalRequest) -> ApprovalDecision | None:
        approval_id, now = request.own_id, self._now_ms()
        with self._lock:
            self._forget(now - self._ttl_ms)
            decision = self._decided.get(approval_id)
            if request.approval_id not in (None, approval_id):
                decision = None  # the named approval belongs to another call
            if decision is None:
                self._pending.setdefault(approval_id, (replace(request, approval_id=approval_id), now))
                return None
            del self._decided[approval_id]
        if now >= decision.expires_at_ms:
            return replace(decision, outcome="expired")
        return decision

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Returns the requests that wait for a person, oldest first; each has its `approval_id`."""
        with self._lock:
            self._forget(self._now_ms() - self._ttl_ms)
            return tuple(request for request, _ in self._pending.values())

    def approve(self, approval_id: str, *, by: str, reason: str = "", roles: Collection[str] = ()) -> ApprovalDecision:
        """Approves a pending request. `roles`: those of the person `by`. Raises NotFound; Conflict if it is decided
        already; UsageError (`not_an_approver`) if this person may not decide it."""
        return self._decide(approval_id, "approved", by, reason, tuple(roles))

    def reject(self, approval_id: str, *, by: str, reason: str = "", roles: Collection[str] = ()) -> ApprovalDecision:
        """Rejects a pending request. Has the parameters and errors of `approve`."""
        return self._decide(approval_id, "rejected", by, reason, tuple(roles))

    def _decide(
        self, approval_id: str, outcome: ApprovalOutcome, by: str, reason: str, roles: tuple[str, ...]
    ) -> ApprovalDecision:
        now = self._now_ms()
        with self._lock:
            self._forget(now - self._ttl_ms)
            if approval_id in self._decided:
                raise Conflict(f"Approval {approval_id} is decided already.")
            if approval_id not in self._pending:
                raise NotFound(f"There is no pending approval {approval_id}.")
            require_approver(roles, self._pending[approval_id][0].approvers, approval_id)
            del self._pending[approval_id]
            decision = ApprovalDecision(approval_id, outcome, by, reason, now, now + self._ttl_ms, roles)
            self._decided[approval_id] = decision
            return decision

    def _forget(self, before_ms: int) -> None:
        """Drops requests that nobody decided, and decisions `ttl_ms` after they expired. Both are in the order of
        their times, so only the dropped entries and one more of each are read."""
        while self._pending and next(iter(self._pending.values()))[1] < before_ms:
            del self._pending[next(iter(self._pending))]
        while self._decided and next(iter(self._decided.values())).expires_at_ms < before_ms:
            del self._decided[next(iter(self._decided))]

    def _now_ms(self) -> int:
        return self._clock.now_ns() // _MS
