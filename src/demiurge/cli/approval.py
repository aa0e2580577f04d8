"""A call that waits for approval: its display in one line, and a person's decision about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from demiurge.cli import output
from demiurge.cli.call_arguments import arguments

__all__ = ["GRANTED_BY_YES", "SHORT", "Decision", "RuleTerms", "describe"]

GRANTED_BY_YES = "granted by --yes"
"""The reason that is journaled for an approval by `--yes`."""

SHORT = 12
"""The number of characters of an id to show for use on a command line."""


class RuleTerms(NamedTuple):
    """The terms of a standing rule: `pattern` names every argument (see `World.standing_rules.allow`), `calls` is their
    number, `lasts_s` is in seconds."""

    pattern: Mapping[str, Any]
    calls: int
    lasts_s: float


class Decision(NamedTuple):
    """A person's decision. `reason` is journaled with it. `arguments_json`: the call runs with these arguments.
    `rule`: further calls are allowed too, on these terms."""

    approve: bool
    reason: str = ""
    arguments_json: str | None = None
    rule: RuleTerms | None = None


def describe(pending: Mapping[str, Any]) -> str:
    """Returns the call with all of its arguments in one line, so that nobody decides on arguments that are left out,
    disguised or scrolled away."""
    if pending["arguments_json"] is None:
        return f"{output.plain(pending['tool'])} (its arguments can't be read: {pending['damaged']})"
    return f"{output.plain(pending['tool'])} {arguments(pending['arguments_json'])}{_with_connection(pending)}"


def _with_connection(pending: Mapping[str, Any]) -> str:
    """Returns whose account elsewhere the call would use."""
    used = pending.get("connection")
    return f" with the connection {used['id']} ({output.plain(used['provider'])})" if used is not None else ""
