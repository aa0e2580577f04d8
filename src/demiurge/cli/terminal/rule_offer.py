"""The offer of a standing rule: which further calls it allows and when it ends, shown before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from demiurge.bootstrap.standing_rules import COUNT, LASTS_S
from demiurge.cli import output
from demiurge.cli.approval import RuleTerms
from demiurge.cli.portal import Portal
from demiurge.cli.standing_rules import form_words
from demiurge.cli.terminal.input_line import ask
from demiurge.cli.terminal.keyboard import drop_typed_ahead
from demiurge.cli.terminal.screen import Screen
from demiurge.errors import DemiurgeError, UsageError
from demiurge.tools.taint_words import taint_reason
from demiurge.values import canonical_json
from demiurge.values.clock import SystemClock
from demiurge.visible_text import visible, visible_name
from demiurge.world.authority.standing_rule import MAX_CALLS, MAX_LIFETIME_NS, exactly
from demiurge.world.unit import Unit

__all__ = ["offered_rule", "with_change", "with_changes"]

ANY: Final = "*"
HOUR_S: Final = 3600.0


def offered_rule(portal: Portal, screen: Screen, pending: Mapping[str, Any], changes: str) -> RuleTerms | None:
    """Shows the rule that would be made from a waiting call and lets the person change it; `changes` are the first
    ones. Returns its terms, or None if the person does not confirm it. Raises EOFError, KeyboardInterrupt."""
    if pending.get("tainted"):
        why = f"No rule answers such a call, because {taint_reason(pending['tainted'])}."
        screen.print(screen.lines(Text(f"  {why}", style="dim")))
        return None
    try:
        terms = RuleTerms(exactly(canonical_json.parse_object(pending["arguments_json"])), COUNT, LASTS_S)
    except DemiurgeError as error:
        screen.print(screen.lines(Text(f"  No rule can be made from this call: {error}", style="dim")))
        return None
    while True:
        try:
            terms = with_changes(terms, changes)
            for row in _rule_rows(pending, terms):
                screen.print(screen.lines(row))
        except UsageError as error:
            screen.print(screen.lines(Text(f"  {output.plain(error.message)}", style="yellow")))
        drop_typed_ahead()
        changes = ask(portal, "y makes the rule, Enter goes back; or change it: ")
        if changes.lower() in ("y", "yes"):
            return terms
        if changes.lower() in ("", "n", "no"):
            return None


def with_changes(terms: RuleTerms, changes: str) -> RuleTerms:
    """Returns the terms after all of these changes, which stand one after the other. Raises UsageError (`bad_pattern`)
    about the first one that is wrong; then none of them is made."""
    given = changes.split()
    try:
        for change in given:
            terms = with_change(terms, change)
    except UsageError as error:
        others = " Nothing of this line was changed." if len(given) > 1 else ""
        raise UsageError(error.message + others, code=error.code) from error
    return terms


def with_change(terms: RuleTerms, change: str) -> RuleTerms:
    """Returns the terms after one change: `NAME=*`, `NAME=notes/*`, `count=5` or `hours=2`. An argument that has the
    name `count` or `hours` comes first. Raises UsageError (`bad_pattern`)."""
    name, equals, text = change.partition("=")
    if not equals:
        raise UsageError(f"A change is NAME=PATTERN, count=N or hours=N; {change!r} has no =.", code="bad_pattern")
    if name in terms.pattern:
        form: dict[str, Any] = {"any": True} if text == ANY else {"like": text}
        return terms._replace(pattern={**terms.pattern, name: form})
    try:
        if name == "count" and 1 <= int(text) <= MAX_CALLS:
            return terms._replace(calls=int(text))
        if name == "hours" and 0 < float(text) * HOUR_S * 1e9 <= MAX_LIFETIME_NS:
            return terms._replace(lasts_s=float(text) * HOUR_S)
    except ValueError:
        pass
    if name in ("count", "hours"):
        raise UsageError(f"count is 1 to {MAX_CALLS}, and hours at most 720.", code="bad_pattern")
    raise UsageError(f"The call has no argument {name!r}.", code="bad_pattern")


def _rule_rows(pending: Mapping[str, Any], terms: RuleTerms) -> list[Text]:
    ends_s = SystemClock().now_ns() / 1e9 + terms.lasts_s
    until = datetime.fromtimestamp(ends_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    chat = Unit.parse(pending["unit"]).key
    rows = [
        Text("  The rule would allow, without asking again:", style="bold"),
        Text(f"  {visible(pending['tool'])} in the chat {visible_name(chat)} alone, with"),
    ]
    shown = {visible(name): form_words(form) for name, form in sorted(terms.pattern.items())}
    longest = max(map(len, shown), default=0)
    rows += [Text(f"    {name + ':':{longest + 1}} {words}") for name, words in shown.items()]
    rows.append(Text(f"  {terms.calls} calls in all, of which this is the first, until {until}"))
    rows.append(Text("  Changes: NAME=* (anything), NAME=notes/* (* is all but /), count=5, hours=2", style="dim"))
    return rows
