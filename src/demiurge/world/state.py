"""The state of a unit between two ingresses: its cell, its running plans, its open intents.

All of it is the fold of the unit's records, so it can be dropped and computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.budget import Limits, Run, Used
from demiurge.world.plan import PlanInstance
from demiurge.world.record import GENESIS
from demiurge.world.unit import Unit

__all__ = ["OpenIntent", "Request", "UnitState"]


@dataclass(frozen=True, slots=True)
class Request:
    """A running tool's request for an effect: its kind, the digest of its parameters, and the answer once there is
    one."""

    kind: str
    params_digest: bytes
    intent: bytes
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OpenIntent:
    """An intent without a receipt. `approval` is the request for a person's decision, if the intent awaits or awaited
    one, and `approved` the decision that lets it go on, or the answer to a question.

    `refused` holds the closed code and the message if the effect must not run; its adapter then only answers it.
    `origin` is `{"kind": "plan", "name", "id"}`, `{"kind": "tool", "name", "parent", "ordinal"}` or `{"kind":
    "reducer", "name", "key"}`. `run` is the id of the counted run that the intent belongs to, if any. `left` is what
    remained of the run's and the unit's budget when the intent was admitted: `{"run", "unit"}`, for those that are
    bounded (`world.budget`). `edited_from` names the waiting intent that this one replaces, because a person approved
    the call with other arguments: `{"intent", "call_ref"}`. The result goes to whoever waits for that intent. `tainted`
    names the untrusted tools whose text led to the request; None if there are none.

    `leg`: this intent goes on with a call that asked a person half-way (`tools.input_required`); `approval` is then the
    question, and `approved` its answer. `{"of": the intent that waits for the result, "after": the leg before,
    "number": from 2, "asks" and "state": blobs, "tied": whether the state is good for one process alone, "granted": the
    approval of the call, `{"intent", "approval", "approved"}` or None}`.
    """

    id: bytes
    seq: int
    kind: str
    params: Any
    grant: str
    origin: Mapping[str, Any]
    caller: Caller
    manifest: Ref
    approval: Mapping[str, Any] | None = None
    approved: Mapping[str, Any] | None = None
    requests: Mapping[int, Request] = field(default_factory=dict)
    run: int | None = None
    left: Mapping[str, Limits] | None = None
    refused: Mapping[str, str] | None = None
    edited_from: Mapping[str, Any] | None = None
    leg: Mapping[str, Any] | None = None
    tainted: tuple[str, ...] | None = None

    @property
    def awaits_approval(self) -> bool:
        return self.approval is not None and self.approved is None and self.refused is None

    @property
    def is_question(self) -> bool:
        """True for a call that asks a person for an answer, not for an approval."""
        return self.approval is not None and (self.leg is not None or self.approval["expires_ns"] is None)

    @property
    def only_asks(self) -> bool:
        """True for a question whose answer is its result: nothing runs when it is answered, and it never expires."""
        return self.is_question and self.leg is None

    @property
    def answer_ref(self) -> Ref | None:
        """The blob of a person's answer to a question; None while there is none."""
        return self.approved.get("answer_ref") if self.approved is not None else None

    @property
    def asked_for(self) -> bytes:
        """The id of the intent whose result this intent gives: its own, unless it took another one's place."""
        if self.leg is not None:
            return bytes(self.leg["of"])
        return bytes(self.edited_from["intent"]) if self.edited_from is not None else self.id

    @property
    def permitted(self) -> OpenIntent:
        """The intent with the approval of its call, if there is one: of a later leg, that of the first."""
        if self.leg is None:
            return self
        granted = self.leg["granted"] or {"intent": self.id, "approval": None, "approved": None}
        return replace(self, id=granted["intent"], approval=granted["approval"], approved=granted["approved"], leg=None)

    @property
    def may_run(self) -> bool:
        """Returns whether the intent is neither refused nor waiting for a person."""
        return self.refused is None and not self.awaits_approval

    @property
    def deadline_ns(self) -> int | None:
        """The wall time at which the intent's run is over, in nanoseconds since 1970; None if it has no deadline."""
        return self.left["run"].get("deadline_ns") if self.left is not None and "run" in self.left else None


@dataclass(slots=True)
class UnitState:
    """`seq` is the number that the next record gets; `head` is the hash of the last record. `runs` holds the runs that
    go on and are counted; `used` is what effects have used since the unit's use is counted; `rules` are the standing
    rules by id (`authority.standing_rule`); `tainted` names the untrusted tools whose text a run has read, by the id of
    the run (`kernel.taint`)."""

    world: str
    unit: Unit
    seq: int = 0
    head: bytes = GENESIS
    manifest: Ref | None = None
    cell: Mapping[str, Any] | None = None
    plans: dict[int, PlanInstance] = field(default_factory=dict)
    intents: dict[bytes, OpenIntent] = field(default_factory=dict)
    next_plan: int = 1
    runs: dict[int, Run] = field(default_factory=dict)
    used: Used | None = None
    rules: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    tainted: dict[int | None, tuple[str, ...]] = field(default_factory=dict)

    def copy(self) -> UnitState:
        """Returns a copy that `advance` may change: plans are copied when touched; everything else is replaced, not
        changed."""
        return UnitState(
            self.world,
            self.unit,
            self.seq,
            self.head,
            self.manifest,
            self.cell,
            dict(self.plans),
            dict(self.intents),
            self.next_plan,
            dict(self.runs),
            self.used,
            dict(self.rules),
            self.tainted,
        )

    @property
    def waiting(self) -> tuple[bytes, ...]:
        """The ids of the intents that wait for a person."""
        return tuple(intent.id for intent in self.intents.values() if intent.awaits_approval)

    def request_of(self, intent: OpenIntent) -> int | None:
        """Returns the `request_id` of the event that began the intent's plan; None if it has none. In a chat this is
        the number of the message whose turn the intent belongs to."""
        while intent.origin["kind"] == "tool" and intent.origin["parent"] in self.intents:
            intent = self.intents[intent.origin["parent"]]
        plan = self.plans.get(intent.origin["id"]) if intent.origin["kind"] == "plan" else None
        found = plan.input.get("request_id") if plan is not None and isinstance(plan.input, Mapping) else None
        return found if type(found) is int else None

    @property
    def is_open(self) -> bool:
        """True while a plan runs or an intent is open."""
        return bool(self.plans or self.intents)
