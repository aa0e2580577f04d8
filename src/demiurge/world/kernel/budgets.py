"""Budgets in the kernel: how much an effect may still use, how much it used, and how much one run lends to another.

An event to another unit may take a share of its run's budget along. The sender reserves the share in the record of the
event. The run that begins in the other unit ends when nothing of it is open, and reports its use in an event that both
journals hold. Both events go through the outbox, so a crash neither loses a share nor lends it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values.refs import Ref
from demiurge.world.authority.admission import Admission
from demiurge.world.budget import (
    CallingRun,
    LendingRun,
    Limits,
    Run,
    Used,
    bounded,
    given_to,
    is_priced,
    limits_of,
    use_of,
    wanted,
)
from demiurge.world.kernel.step_context import StepContext
from demiurge.world.reducer import Emit, MissingBlob
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.webhooks import WEBHOOK

__all__ = ["Overdrawn", "begin_run", "check_shares", "count", "end_runs", "left_of", "lend", "settle", "shortfall"]

SETTLED = "sys/BudgetSettled@1"

_WORDS = {
    "tool_calls": "tool calls",
    "llm_requests": "model requests",
    "total_tokens": "tokens",
    "cost_micros": "millionths of a dollar",
}


class Overdrawn(InvalidValue):
    """An event would take more budget along than is left."""

    code = "budget_exceeded"


@dataclass(frozen=True, slots=True)
class _Account:
    """The budget of a run or of a unit (`name` is "run" or "unit"). `used` is known use; `open` is the most that
    running effects may still use."""

    name: str
    limits: Limits
    used: Used
    open: Used
    run: Run | None

    def spent(self, dimension: str) -> int:
        """Returns the amount that was used or is lent to other runs."""
        used: int = getattr(self.used, dimension)
        return used + (self.run.reserved(dimension) if self.run is not None else 0)

    def left(self, dimension: str) -> int:
        held: int = getattr(self.open, dimension)
        return self.limits[dimension] - self.spent(dimension) - held


def begin_run(step: StepContext, seq: int) -> int | None:
    """Returns the id of the run that an event belongs to in this unit, or None if no run is counted. A reply to a run
    that goes on belongs to that run, unless the reply brings a budget of its own."""
    sent = step.ingress.sender
    back: int | None = sent.get("back")
    if back in step.state.runs and not sent.get("lent"):
        return back
    if "budget" not in sent and step.manifest.tool_policy.budgets.run is None:
        return None
    if step.state.unit.module == WEBHOOK:  # a notice is the host's, and retried longer than any run lasts
        return None
    lender = LendingRun(sent["unit"], sent["seq"]) if sent.get("lent") else None
    caller = CallingRun(sent["unit"], sent["run"]) if "run" in sent else None
    step.state.runs[seq] = Run(seq, step.ingress.stamp.time_ns, sent.get("budget", {}), lender, caller)
    return seq


def shortfall(
    step: StepContext, run: int | None, kind: str, params: Mapping[str, Any], except_for: bytes | None = None
) -> Admission | None:
    """Returns why the budget does not suffice for an effect, or None if it does. The open intent `except_for`, which is
    the effect itself, is not counted."""
    if run is None and step.manifest.tool_policy.budgets.unit is None:
        return None
    want, now_ns = wanted(kind, params), step.ingress.stamp.time_ns
    for account in _accounts(step, run, except_for):
        name, limits = account.name, account.limits
        if "deadline_ns" in limits and now_ns >= limits["deadline_ns"]:
            return Admission("deny", "budget", f"{name}.deadline", "deadline_exceeded", "The time of this run is over.")
        for dimension, _ in bounded(limits) if any(want) else ():
            why = _short(account, dimension, getattr(want, dimension), costs=is_priced(kind))
            if why is not None:
                return Admission("deny", "budget", f"{name}.max_{dimension}", "budget_exceeded", why)
    return None


def _short(account: _Account, dimension: str, wants: int, *, costs: bool) -> str | None:
    """Returns why an account does not suffice, or None if it does. If the effect `costs` money, nobody knows how much
    before it is done."""
    name, left, limit = account.name, account.left(dimension), account.limits[dimension]
    is_short = left < wants if wants else account.spent(dimension) > limit
    if dimension == "cost_micros" and costs:
        if account.used.unpriced:
            return f"The budget for this {name} can't be kept: nobody knows what an earlier answer cost."
        is_short = left <= 0
    if not is_short:
        return None
    need = f", and {wants} may be needed" if wants > 1 else ""
    return f"The budget for this {name} is used up: {max(0, left)} of {limit} {_WORDS[dimension]} are left{need}."


def left_of(step: StepContext, run: int | None, kind: str, params: Mapping[str, Any]) -> dict[str, Limits] | None:
    """Returns what an effect, once admitted, leaves to its run and its unit: `{"run", "unit"}`, only those that are
    bounded; None if neither is."""
    if run is None and step.manifest.tool_policy.budgets.unit is None:
        return None
    want = wanted(kind, params)
    found: dict[str, Limits] = {}
    for account in _accounts(step, run, None):
        rest = {name: max(0, account.left(name) - getattr(want, name)) for name, _ in bounded(account.limits)}
        if "deadline_ns" in account.limits:
            rest["deadline_ns"] = account.limits["deadline_ns"]
        found[account.name] = rest
    return found or None


def count(step: StepContext, intent: OpenIntent) -> None:
    """Counts what an effect used, by its receipt. A refused effect used nothing."""
    if intent.refused is not None:
        return
    run = _counted(step, intent.run)
    is_bound = step.manifest.tool_policy.budgets.unit is not None
    if run is None and not is_bound:
        return

    def get(ref: Ref) -> bytes:
        if ref not in step.blobs:
            raise MissingBlob(ref)
        return step.blobs[ref]

    use = use_of(intent.kind, intent.params, step.ingress.body, get)
    if run is not None:
        step.state.runs[run.id] = run.use(use)
    if is_bound:
        step.state.used = (step.state.used or Used()).plus(use)


def check_shares(step: StepContext, run: int | None, sent: Sequence[tuple[Emit, tuple[Unit, str, Any] | None]]) -> None:
    """Raises Overdrawn if the events would take more budget along than is left, InvalidValue if an event with a share
    stays in this unit."""
    wants: dict[str, int] = {}
    for emit, target in sent:
        if emit.budget is None:
            continue
        if target is None or target[0] == step.state.unit:
            raise InvalidValue(f"{emit.schema} stays in this unit, so it takes no budget along")
        for dimension, share in emit.budget.limits.items():
            wants[dimension] = wants.get(dimension, 0) + share
    if not wants:
        return
    for account in _accounts(step, run, None):
        for dimension, limit in bounded(account.limits) if account.run is not None else ():
            left = account.left(dimension)
            if wants.get(dimension, 0) > max(0, left):
                words = f"{max(0, left)} of {limit} {_WORDS[dimension]} are left"
                raise Overdrawn(f"the events take {wants[dimension]} along, and {words}")


def lend(step: StepContext, emit: Emit, unit: Unit, seq: int, run: int | None) -> dict[str, Any]:
    """Returns the budget fields in the cause of an event to another unit, and reserves its share under record `seq`."""
    own_run = _counted(step, run)
    limits = limits_of(step.manifest.tool_policy.budgets.run, own_run) if own_run is not None else {}
    taken = given_to(limits, emit.budget, step.ingress.stamp.time_ns)
    if own_run is None:
        return {"budget": taken, "run": None} if taken else {}
    fields: dict[str, Any] = {"budget": taken, "run": own_run.id} if taken else {"run": own_run.id}
    if own_run.caller is not None and own_run.caller.unit == str(unit):
        if own_run.caller.run is None and emit.budget is None:
            return {}
        fields["back"] = own_run.caller.run
    share = {name: limit for name, limit in emit.budget.limits.items() if limit} if emit.budget is not None else {}
    if share:
        step.state.runs[own_run.id] = own_run.lend(seq, str(unit), share)
        fields["lent"] = True
    return fields


def settle(step: StepContext, cause: Mapping[str, Any]) -> None:
    """Takes the report that a run with a lent share is over: its use is counted, the rest of the share is free
    again."""
    used = Used(**step.ingress.body["value"])
    step.record_ingress()
    for run in list(step.state.runs.values()):
        step.state.runs[run.id] = run.settle(cause["settles"], cause["unit"], used)


def end_runs(step: StepContext) -> None:
    """Ends the runs of which nothing is open any more, and reports their use to the lenders."""
    state = step.state
    going = {plan.run for plan in state.plans.values()} | {intent.run for intent in state.intents.values()}
    for run in list(state.runs.values()):
        if run.id in going or run.lent:
            continue
        del state.runs[run.id]
        if run.lender is not None:
            used = run.used._asdict()
            unit, lent = run.lender
            seq = step.record("settled", {"run": run.id, "used": used}, step.records[0].unit_seq)
            sender = {"unit": str(state.unit), "seq": seq, "index": len(step.sent), "settles": lent}
            step.send(seq, Unit.parse(unit), SETTLED, used, sender)


def _counted(step: StepContext, run: int | None) -> Run | None:
    """Returns the run if it is counted and goes on."""
    return step.state.runs.get(run) if run is not None else None


def _accounts(step: StepContext, run: int | None, except_for: bytes | None) -> Iterator[_Account]:
    """Yields the accounts that bound an effect of `run`, that of the run first."""
    state, budgets = step.state, step.manifest.tool_policy.budgets
    found = _counted(step, run)
    if found is not None:
        limits = limits_of(budgets.run, found)
        if limits:
            yield _Account("run", limits, found.used, _held(step, except_for, found.id), found)
    if budgets.unit is not None:
        yield _Account("unit", budgets.unit.limits, state.used or Used(), _held(step, except_for, None), None)


def _held(step: StepContext, except_for: bytes | None, run: int | None) -> Used:
    """Returns the most that the open effects of one run, or of all runs, may use."""
    held = Used()
    for intent in step.state.intents.values():
        if intent.id != except_for and intent.refused is None and run in (None, intent.run):
            held = held.plus(wanted(intent.kind, intent.params))
    return held
