"""Budgets as the kernel keeps them: what an effect may still take, what it took, and what one run lends to another.

An event to another unit takes a share along; its sender has reserved it by the record of the event. The run that it
begins there ends when nothing of it is open, and sends word of what it used, as an event that both journals hold. Both
ways go by the outbox, so a crash neither loses a share nor gives it out twice.
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

__all__ = ["Overdrawn", "begin_run", "check_shares", "count", "end_runs", "left_of", "lend", "settle", "shortfall"]

SETTLED = "sys/BudgetSettled@1"

_WORDS = {
    "tool_calls": "tool calls",
    "llm_requests": "model requests",
    "total_tokens": "tokens",
    "cost_micros": "millionths of a dollar",
}


class Overdrawn(InvalidValue):
    """An event was to take more along than there is."""

    code = "budget_exceeded"


@dataclass(frozen=True, slots=True)
class _Account:
    """What bounds an effect: its run (`name` is "run") or its unit. `used` is known, `open` is what effects may take
    that go on."""

    name: str
    limits: Limits
    used: Used
    open: Used
    run: Run | None

    def spent(self, dimension: str) -> int:
        """Used, or lent to other runs."""
        used: int = getattr(self.used, dimension)
        return used + (self.run.reserved(dimension) if self.run is not None else 0)

    def left(self, dimension: str) -> int:
        held: int = getattr(self.open, dimension)
        return self.limits[dimension] - self.spent(dimension) - held


def begin_run(step: StepContext, seq: int) -> int | None:
    """The run that an event belongs to here, when it is counted: its id. One that comes back goes on with the run that
    it comes back to, if that goes on and the event brings nothing of its own."""
    sent = step.ingress.sender
    back: int | None = sent.get("back")
    if back in step.state.runs and not sent.get("lent"):
        return back
    if "budget" not in sent and step.manifest.tool_policy.budgets.run is None:
        return None
    lender = LendingRun(sent["unit"], sent["seq"]) if sent.get("lent") else None
    caller = CallingRun(sent["unit"], sent["run"]) if "run" in sent else None
    step.state.runs[seq] = Run(seq, step.ingress.stamp.time_ns, sent.get("budget", {}), lender, caller)
    return seq


def shortfall(
    step: StepContext, run: int | None, kind: str, params: Mapping[str, Any], but: bytes | None = None
) -> Admission | None:
    """Why there is no budget for an effect, None when there is. `but`: an open intent, itself, that does not count."""
    if run is None and step.manifest.tool_policy.budgets.unit is None:
        return None
    want, now_ns = wanted(kind, params), step.ingress.stamp.time_ns
    for account in _accounts(step, run, but):
        name, limits = account.name, account.limits
        if "deadline_ns" in limits and now_ns >= limits["deadline_ns"]:
            return Admission("deny", "budget", f"{name}.deadline", "deadline_exceeded", "The time of this run is over.")
        for dimension, _ in bounded(limits) if any(want) else ():
            why = _short(account, dimension, getattr(want, dimension), costs=is_priced(kind))
            if why is not None:
                return Admission("deny", "budget", f"{name}.max_{dimension}", "budget_exceeded", why)
    return None


def _short(account: _Account, dimension: str, wants: int, *, costs: bool) -> str | None:
    """Why there is not enough, if there is not; what an effect that `costs` will cost nobody knows before."""
    name, left, limit = account.name, account.left(dimension), account.limits[dimension]
    is_short = left < wants if wants else account.spent(dimension) > limit
    if dimension == "cost_micros" and costs:
        if account.used.unpriced:
            return f"The budget for this {name} can't be kept: nobody knows what an earlier answer cost."
        is_short = left <= 0
    if not is_short:
        return None
    asked = f", and {wants} may be needed" if wants > 1 else ""
    return f"The budget for this {name} is used up: {max(0, left)} of {limit} {_WORDS[dimension]} are left{asked}."


def left_of(step: StepContext, run: int | None, kind: str, params: Mapping[str, Any]) -> dict[str, Limits] | None:
    """What is left to the run and to the unit once an effect is admitted; None when neither is bounded."""
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
    """Note what an effect took, whose receipt this is; one that was refused took nothing."""
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
    """Raises Overdrawn when events would take more along than there is, InvalidValue for one that stays here."""
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
    """What the cause of an event that goes to another unit says of budgets, reserved here by its record `seq`."""
    mine = _counted(step, run)
    limits = limits_of(step.manifest.tool_policy.budgets.run, mine) if mine is not None else {}
    given = given_to(limits, emit.budget, step.ingress.stamp.time_ns)
    if mine is None:
        return {"budget": given, "run": None} if given else {}
    said: dict[str, Any] = {"budget": given, "run": mine.id} if given else {"run": mine.id}
    if mine.caller is not None and mine.caller.unit == str(unit):
        if mine.caller.run is None and emit.budget is None:
            return {}
        said["back"] = mine.caller.run
    share = {name: limit for name, limit in emit.budget.limits.items() if limit} if emit.budget is not None else {}
    if share:
        step.state.runs[mine.id] = mine.lend(seq, str(unit), share)
        said["lent"] = True
    return said


def settle(step: StepContext, cause: Mapping[str, Any]) -> None:
    """A run that was lent something is over: what it used is used, the rest is back."""
    used = Used(**step.ingress.body["value"])
    step.record_ingress()
    for run in list(step.state.runs.values()):
        step.state.runs[run.id] = run.settle(cause["settles"], cause["unit"], used)


def end_runs(step: StepContext) -> None:
    """End what has nothing open any more, and settle with who lent."""
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
    """The run, when it is counted and goes on."""
    return step.state.runs.get(run) if run is not None else None


def _accounts(step: StepContext, run: int | None, but: bytes | None) -> Iterator[_Account]:
    """What bounds an effect of `run`, its run first."""
    state, budgets = step.state, step.manifest.tool_policy.budgets
    found = _counted(step, run)
    if found is not None:
        limits = limits_of(budgets.run, found)
        if limits:
            yield _Account("run", limits, found.used, _held(step, but, found.id), found)
    if budgets.unit is not None:
        yield _Account("unit", budgets.unit.limits, state.used or Used(), _held(step, but, None), None)


def _held(step: StepContext, but: bytes | None, run: int | None) -> Used:
    """What open effects may take, of one run or of all."""
    held = Used()
    for intent in step.state.intents.values():
        if intent.id != but and intent.refused is None and run in (None, intent.run):
            held = held.plus(wanted(intent.kind, intent.params))
    return held
