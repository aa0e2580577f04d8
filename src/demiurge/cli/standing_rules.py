"""Standing rules on the command line: the pattern of a rule, and its line in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from demiurge.apps.demiurge import CHAT
from demiurge.cli import output
from demiurge.errors import UsageError
from demiurge.values import canonical_json
from demiurge.visible_text import visible, visible_name
from demiurge.world.authority.standing_rule import exactly
from demiurge.world.unit import Unit

__all__ = ["COLUMNS", "form_words", "pattern_of", "rule_row", "rule_sentence"]

COLUMNS = ("ID", "UNIT", "TOOL", "ARGUMENTS", "LEFT", "UNTIL", "BY")


def pattern_of(arguments_json: str | None, any_of: Sequence[str], likes: Sequence[str]) -> dict[str, Any]:
    """Returns the pattern of the call with these arguments: exactly they, but for those named in `any_of` and `likes`
    (`NAME=PATTERN`). Raises UsageError."""
    if arguments_json is None:
        raise UsageError("The arguments of this call can't be shown here, so none can be widened.", code="bad_pattern")
    pattern = exactly(canonical_json.parse_object(arguments_json))
    given: list[tuple[str, dict[str, Any]]] = [(name, {"any": True}) for name in any_of]
    for like in likes:
        name, equals, text = like.partition("=")
        if not equals:
            raise UsageError(f"--like takes NAME=PATTERN, such as path=notes/*; {like!r} has no =.", code="bad_pattern")
        given.append((name, {"like": text}))
    for name, form in given:
        if name not in pattern:
            raise UsageError(f"The waiting call has no argument {name!r}.", code="bad_pattern")
        pattern[name] = form
    return pattern


def rule_row(rule: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a rule as the cells of `COLUMNS`."""
    until = datetime.fromtimestamp(rule["expires_ns"] // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    pattern = rule["pattern_json"] if rule["pattern_json"] is not None else "(withheld)"
    unit, tool, by = (visible_name(rule[name]) for name in ("unit", "tool", "by"))
    return rule["id"][:12], unit, tool, pattern, str(rule["left"]), until, by


def rule_sentence(rule: Mapping[str, Any], actor: str = "") -> str:
    """Returns a rule as a sentence: what it allows, where, until when, and how to end it. `actor` reads it."""
    short, unit, tool, _, left, until, by = rule_row(rule)
    whose = f"Your standing rule {short}" if rule["by"] == actor else f"The standing rule {short} by {by}"
    where = Unit.parse(rule["unit"])
    place = f"the chat {visible_name(where.key)}" if where.module == CHAT else unit
    calls = f"{left} more call{'s' * (rule['left'] != 1)} of {tool} in {place} until {until}"
    forms = canonical_json.parse_object(rule["pattern_json"]) if rule["pattern_json"] is not None else None
    words = (
        [f"{name}: {form_words(form)}" for name, form in sorted(forms.items())] if forms is not None else ["withheld"]
    )
    given = f", with {'; '.join(words)}" if words else ""
    return f"{whose} allows {calls}{given}. `demiurge approvals forget {short}` ends it."


def form_words(form: Mapping[str, Any]) -> str:
    """Returns in words which values of an argument a rule allows."""
    if "equals" in form:
        return f"exactly {output.as_json(form['equals'])}"
    return "anything" if "any" in form else f"any text like {visible(form['like'])}"
