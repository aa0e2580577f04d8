"""`backtest`: the decisions that another tool policy would have made on the calls in a journal.

A call is decided under the manifest that was in force when it was proposed, which its record names. So the recorded
decision is read, or computed again from that manifest alone; the other policy is asked about the same tool and effect.
Nothing runs and nothing is written. Records are read one at a time, and memory grows with the number of tools, not of
calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from demiurge.tools.policy import Decision, ToolPolicy, ToolPolicyContext
from demiurge.world.history.decided import DecidedCall, Get, recorded_decisions
from demiurge.world.record import Record

__all__ = ["Backtest", "ChangedDecision", "DecidedCall", "backtest"]


@dataclass(slots=True)
class ChangedDecision:
    """Calls of one tool that the other policy would decide differently: how many, and the first of them. `rule` is the
    name of the other policy's rule that would decide, None for its own lists."""

    tool: str
    effect: str
    recorded: Decision
    would_be: Decision
    rule: str | None = None
    count: int = 0
    calls: list[DecidedCall] = field(default_factory=list)


@dataclass(slots=True)
class Backtest:
    """The outcome of a backtest. `calls` counts the calls compared; `unreadable` those that could not be read, because
    a blob is gone or damaged. `decided` counts calls by (recorded, would be)."""

    calls: int = 0
    unreadable: int = 0
    decided: dict[tuple[Decision, Decision], int] = field(default_factory=dict)
    changes: list[ChangedDecision] = field(default_factory=list)


def backtest(records: Iterable[Record], get: Get, policy: ToolPolicy, *, shown: int = 5) -> Backtest:
    """Decides every recorded call again under `policy`. `records` are in the order of positions, or those of one unit;
    `shown` is the most calls to name of each change."""
    done = Backtest()
    changes: dict[tuple[str, str, Decision, Decision, str], ChangedDecision] = {}
    for found in recorded_decisions(records, get):
        if found is None:
            done.unreadable += 1
            continue
        context = ToolPolicyContext.of(found.caller, tainted=found.tainted)
        would_be = policy.decide(context, found.tool, found.effect)
        done.calls += 1
        verdicts = found.recorded, would_be
        done.decided[verdicts] = done.decided.get(verdicts, 0) + 1
        if would_be != found.recorded:
            rule = policy.rule_name(context, found.tool, found.effect, would_be)
            change = ChangedDecision(found.tool, found.effect.value, *verdicts, rule)
            change = changes.setdefault((change.tool, change.effect, *verdicts, rule or ""), change)
            change.count += 1
            if len(change.calls) < shown:
                change.calls.append(found.call)
    done.changes = [changes[key] for key in sorted(changes)]
    return done
