"""A call that waits for approval: its display, and the question on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from demiurge.cli import output
from demiurge.cli.call_arguments import arguments

__all__ = ["SHORT", "Decision", "ask", "describe"]

SHORT = 12
"""The number of characters of an id to show for use on a command line."""


class Decision(NamedTuple):
    """A person's decision. `reason` is journaled with it."""

    approve: bool
    reason: str


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


def ask(pending: Mapping[str, Any]) -> Decision:
    """Asks on the terminal until there is a clear answer. Raises EOFError (Ctrl-D), KeyboardInterrupt."""
    mark = output.paint("?", fg="yellow", bold=True)
    output.write(f"{mark} {describe(pending)}")
    while True:
        verdict, _, reason = input("  Allow it? y or n, and why if you like: ").strip().partition(" ")
        if verdict.lower() in ("y", "yes", "n", "no"):
            return Decision(verdict.lower().startswith("y"), reason.strip())
