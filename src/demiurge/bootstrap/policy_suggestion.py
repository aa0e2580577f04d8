"""`suggest_policy`: a tool policy drafted from what was used, and from nothing else.

A tool with at least one successful call is allowed, to those who called it. A person is asked before a call that
changes something, and before a call of a tool that a person approved in the record or that the policy in force names.
All else is not allowed. The draft is checked on the same records: it denies no call that succeeded.

Records are read one at a time, twice; memory grows with the number of tools and callers, not of calls.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.cost import today
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.policy_suggestion_text import suggestion_text
from demiurge.bootstrap.recorded_use import CallerGroup, RecordedUse, ToolUse, can_be_named
from demiurge.bootstrap.records_by_day import first_day, first_record
from demiurge.errors import NotFound
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import ASK_USER
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.policy_rule import ToolPolicyRule
from demiurge.values import cbor
from demiurge.values.refs import parse_ref
from demiurge.world.history.backtest import Backtest, backtest
from demiurge.world.history.decided import Get, recorded_decisions
from demiurge.world.record import Record
from demiurge.world.unit import Unit

__all__ = ["PolicySuggestion", "draft_policy", "suggest_policy"]

_CHANGING: Final = (ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT)


@dataclass(frozen=True, slots=True)
class PolicySuggestion:
    """A drafted tool policy. `text` is its file (TOML) with comments; `uses` is what it is drafted from; `backtest` is
    the draft tried on the record; `never_called` are tools of the world. `denied_successes` names the tools with a
    successful call that the draft would deny; it is empty."""

    policy: ToolPolicy
    text: str
    uses: tuple[ToolUse, ...]
    backtest: Backtest
    never_called: tuple[str, ...]
    denied_successes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        uses = [asdict(use) | {"callers": asdict(use.callers), "effect": use.effect.value} for use in self.uses]
        return {
            "policy": self.policy.to_json(),
            "digest": self.policy.digest,
            "text": self.text,
            "uses": uses,
            "never_called": list(self.never_called),
            "denied_successes": list(self.denied_successes),
        }


async def suggest_policy(backend: Backend, chat_id: str | None = None, days: int | None = None) -> PolicySuggestion:
    """Returns a tool policy drafted from the calls of one chat, or of all, in the last `days` (None: in all records).
    Nothing runs and nothing is written. Raises NotFound (`no_chat`), InvalidValue."""
    return await asyncio.to_thread(_suggest, backend, chat_id, days)


def _suggest(backend: Backend, chat_id: str | None, days: int | None) -> PolicySuggestion:
    unit = Unit(CHAT, chat_id) if chat_id is not None else None
    if unit is not None and not any(head.unit == str(unit) for head in backend.read.heads(str(unit), 1)):
        raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="no_chat")
    start = 0 if days is None else first_record(backend, unit, first_day(today(), days))

    def records() -> Iterator[Record]:
        return Journal(backend).read(unit, start)

    def get(ref: str) -> bytes:
        return backend.read.get_blob(parse_ref(ref))

    manifest: dict[str, Any] = cbor.decode(backend.read.manifest())
    return draft_policy(records(), records(), get, manifest)


def draft_policy(
    records: Iterable[Record], again: Iterable[Record], get: Get, manifest: Mapping[str, Any]
) -> PolicySuggestion:
    """Returns the draft for `records`, checked on `again`, which are the same ones. `manifest` is the one in force as
    data: its policy's limits, approvers and answers to taint stay."""
    found = RecordedUse()
    for decision in recorded_decisions(found.watch(records), get):
        if decision is not None:
            found.decided(decision)
    uses = tuple(found.uses[key] for key in sorted(found.uses))
    in_force = ToolPolicy.from_json(manifest["tool_policy"])
    policy = _draft(uses, found.actors, in_force)
    tried = backtest(again, get, policy, shown=0)
    denied = {tool for tool, effect, who in found.contexts if policy.decide(who, tool, effect) == "deny"}
    tools = {spec["name"] for spec in manifest["toolset"]}
    never = tuple(sorted(tools - {use.tool for use in uses}))
    text = suggestion_text(policy, uses, tried, never, tools, [rule.name for rule in in_force.rules])
    return PolicySuggestion(policy, text, uses, tried, never, tuple(sorted(denied)))


def _draft(uses: Iterable[ToolUse], actors: Mapping[CallerGroup, set[str]], in_force: ToolPolicy) -> ToolPolicy:
    allowed: dict[CallerGroup, set[str]] = defaultdict(set)
    asked: set[str] = set()
    for use in uses:
        if use.succeeded:
            allowed[use.callers].add(use.tool)
            is_asked = use.approved or use.tool in in_force.require_approval_for_tools
            if is_asked and use.effect is ToolEffect.READ_ONLY and use.tool != ASK_USER:
                asked.add(use.tool)
    unnamed = allowed.pop(CallerGroup(()), set())  # no rule can name these callers
    for_all = unnamed | (set.intersection(*allowed.values()) if allowed else set())
    rules = [
        _rule(number, callers, sorted(tools - for_all), set(allowed) - {callers}, actors[callers])
        for number, (callers, tools) in enumerate(sorted(allowed.items()), 1)
        if tools - for_all
    ]
    return ToolPolicy(
        tuple(sorted(for_all)),
        require_approval_for_effects=_CHANGING,
        require_approval_for_tools=tuple(sorted(asked)),
        rules=tuple(rules),
        budgets=in_force.budgets,
        approvers=in_force.approvers,
        when_tainted=in_force.when_tainted,
    )


def _rule(
    number: int, callers: CallerGroup, tools: list[str], others: set[CallerGroup], actors: set[str]
) -> ToolPolicyRule:
    """Returns the rule that allows tools to these callers. It names the roles that no others have, if there are any. If
    others with only some of their roles have each of these, it names the `actors` too."""
    if not callers.roles:
        name = _rule_name(number, callers.actor)
        return ToolPolicyRule(name, actors=(callers.actor,), allowed_tools=tuple(tools))
    shared = {role for other in others for role in other.roles}
    roles = tuple(role for role in callers.roles if role not in shared) or callers.roles
    is_wider = any({*other.roles} & {*roles} and not {*other.roles} >= {*callers.roles} for other in others)
    named = tuple(sorted(actors)) if is_wider and all(map(can_be_named, actors)) else ()
    return ToolPolicyRule(_rule_name(number, "-".join(roles)), roles, actors=named, allowed_tools=tuple(tools))


def _rule_name(number: int, text: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)
    return f"used-by-{number}-{plain}"[:64]
