"""A call that waits for approval: its display, and the question on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demiurge.cli import output
from demiurge.cli.call_arguments import arguments
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions

__all__ = ["SHORT", "Decision", "ask", "command_for", "describe"]

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


def _whose(pending: Mapping[str, Any]) -> str:
    """Returns who may decide on the call, according to the policy."""
    needed = [" or ".join(roles) for roles in pending.get("approvers", ())]
    return f"the {output.plain(' and '.join(needed))} role's" if needed else "your"


def command_for(verb: str, pending: Mapping[str, Any], running: RunOptions) -> str:
    """Returns the command line that decides on the call, as it can be typed here."""
    words: list[str] = ["demiurge"]
    if settings().world is not None:
        words += ["-w", settings().url() or str(settings().folder())]
    words += ["approvals", verb, pending["id"][:SHORT]]
    for name in running.tools:
        words += ["--tools", name]
    if running.policy is not None:
        words += ["--policy", running.policy]
    if running.base_url is not None:
        words += ["--base-url", running.base_url]
    return shlex.join(words)


def pending_lines(waiting: Sequence[Mapping[str, Any]], running: RunOptions) -> list[str]:
    """Returns how to go on with waiting calls when there is no terminal to ask on."""
    lines: list[str] = []
    for pending in waiting:
        lines += [
            f"{describe(pending)} waits for {_whose(pending)} decision:",
            f"  allow it:  {command_for('approve', pending, running)}",
            f"  refuse it: {command_for('reject', pending, running)}",
        ]
    return lines
