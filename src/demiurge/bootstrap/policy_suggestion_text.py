"""The file of a drafted tool policy: TOML, with comments that say what each line was drafted from."""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from demiurge.bootstrap.recorded_use import ToolUse
from demiurge.tools.authoring.hidden_text import spell_hidden
from demiurge.tools.policy import ToolPolicy
from demiurge.world.history.backtest import Backtest

__all__ = ["suggestion_text"]

_SHOWN = 40
"""The most tools that a comment lists."""


def suggestion_text(
    policy: ToolPolicy,
    uses: Sequence[ToolUse],
    tried: Backtest,
    never_called: Sequence[str],
    known: Collection[str],
    left_out: Sequence[str],
) -> str:
    """Returns the text of the policy file. `tried` is the draft on the record; `known` are the tools of the world;
    `left_out` are the names of the rules in force, which the draft does not take over."""
    lines = _lines(policy, uses, tried, never_called, known, left_out)
    return "".join(f"{part}\n" for line in lines for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """Returns a line of the file, a long comment in several lines."""
    if not line.startswith("#"):
        return [line]
    return textwrap.wrap(line, 110, subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False)


def _lines(
    policy: ToolPolicy,
    uses: Sequence[ToolUse],
    tried: Backtest,
    never_called: Sequence[str],
    known: Collection[str],
    left_out: Sequence[str],
) -> Iterator[str]:
    by_tool: dict[str, list[ToolUse]] = defaultdict(list)
    for use in uses:
        by_tool[use.tool].append(use)
    calls = sum(use.calls for use in uses)
    when = f", {_day(min(use.first_ns for use in uses))} to {_day(max(use.last_ns for use in uses))}" if uses else ""
    yield f"# Drafted by `demiurge policy suggest` from {_counted(calls, 'recorded call')}{when}."
    yield "# Allowed is what was called with success, to those who called it. Read it before you use it."
    yield from _denials(uses, tried, never_called)
    if left_out:
        yield f"# The rules of the policy in force are not taken over: {_names(left_out)}."
    yield ""
    yield from _listed("allowed_tools", policy.allowed_tools, by_tool, known)
    yield ""
    yield "# A person is asked before anything that changes something."
    yield f"require_approval_for_effects = {_list(effect.value for effect in policy.require_approval_for_effects)}"
    if policy.require_approval_for_tools:
        yield "# These read only, and a person approved calls of them, or the policy in force names them so."
        yield f"require_approval_for_tools = {_list(policy.require_approval_for_tools)}"
    if policy.approvers:
        yield f"approvers = {_list(policy.approvers)}  # as in the policy in force"
    node = policy.to_json()
    if "when_tainted" in node:
        yield f"when_tainted = {_table(node['when_tainted'])}  # as in the policy in force"
    budgets = {name: value for name, value in node["budgets"].items() if value is not None}
    if budgets:
        yield f"budgets = {_table(budgets)}  # as in the policy in force"
    for rule in policy.rules:
        yield ""
        yield "[[rules]]"
        yield f"name = {_text(rule.name)}"
        if rule.roles:
            yield f"roles = {_list(rule.roles)}"
        if rule.actors:
            yield f"actors = {_list(rule.actors)}"
        theirs = {
            tool: [use for use in found if _is_for(use, rule.roles, rule.actors)] for tool, found in by_tool.items()
        }
        yield from _listed("allowed_tools", rule.allowed_tools, theirs, known)


def _denials(uses: Sequence[ToolUse], tried: Backtest, never_called: Sequence[str]) -> Iterator[str]:
    denied = sum(count for (_, would_be), count in tried.decided.items() if would_be == "deny")
    before = tried.decided.get(("deny", "deny"), 0)
    if denied:
        told = f"{_counted(denied, 'call')} of the record; {before} of them were denied then, too"
        yield f"# It would have denied {told}."
    for use in uses:
        if not use.succeeded:
            yield f"#   not allowed: {_comment(use.tool)} ({use.callers}): {_story(use)}"
    if tried.unreadable:
        yield f"# {_counted(tried.unreadable, 'call')} can't be read any more, and nothing is drafted from them."
    if never_called:
        yield f"# Never called, so not allowed: {_names(never_called)}."


def _listed(name: str, tools: Sequence[str], uses: dict[str, list[ToolUse]], known: Collection[str]) -> Iterator[str]:
    if not tools:
        yield f"{name} = []"
        return
    yield f"{name} = ["
    for tool in tools:
        gone = "" if tool in known else "; no tool of this world any more"
        story = "; ".join(f"{use.callers}: {_story(use)}" for use in uses[tool])
        yield f"    {_text(tool)},  # {_comment(str(uses[tool][-1].effect.value))}; {_comment(story)}{gone}"
    yield "]"


def _is_for(use: ToolUse, roles: Sequence[str], actors: Sequence[str]) -> bool:
    return bool(set(use.callers.roles) & set(roles)) if roles else use.callers.actor in actors


def _story(use: ToolUse) -> str:
    counted = {name: getattr(use, name) for name in ("succeeded", "failed", "denied", "approved", "rejected")}
    told = ", ".join(f"{count} {name}" for name, count in counted.items() if count)
    return f"{_counted(use.calls, 'call')} ({told or 'none ended'}), last {_day(use.last_ns)}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(_comment(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _comment(text: str) -> str:
    """Returns text that stays in its comment: no line breaks and no hidden characters."""
    return spell_hidden(text, lambda letter: f"<U+{ord(letter):04X}>").replace("\n", " ").replace("\t", " ")


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def _table(values: dict[str, Any]) -> str:
    """Returns an inline table, whose values are texts, numbers and tables."""
    shown = (f"{key} = {_table(v) if isinstance(v, dict) else json.dumps(v)}" for key, v in values.items())
    return "{" + ", ".join(shown) + "}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _day(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).date().isoformat()
