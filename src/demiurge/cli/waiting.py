"""How to go on with calls that wait for a person, when there is no terminal to ask on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demiurge.cli import output
from demiurge.cli.approval import SHORT, describe
from demiurge.cli.hints import command_line
from demiurge.cli.question import question_lines
from demiurge.cli.world import RunOptions

__all__ = ["pending_lines"]


def _whose(pending: Mapping[str, Any]) -> str:
    """Returns who may decide on the call, according to the policy."""
    needed = [" or ".join(roles) for roles in pending.get("approvers", ())]
    return f"the {output.plain(' and '.join(needed))} role's" if needed else "your"


def _command_for(verb: str, pending: Mapping[str, Any], running: RunOptions) -> str:
    """Returns the command line that decides on the call, as it can be typed here."""
    words = ["approvals", verb, pending["id"][:SHORT]]
    for name in running.tools:
        words += ["--tools", name]
    if running.policy is not None:
        words += ["--policy", running.policy]
    if running.base_url is not None:
        words += ["--base-url", running.base_url]
    return command_line(*words)


def pending_lines(waiting: Sequence[Mapping[str, Any]], running: RunOptions) -> list[str]:
    """Returns a description of each waiting call, and the command lines that decide on it."""
    lines: list[str] = []
    for pending in waiting:
        if pending["asks"] is not None:
            lines += [
                f"The model asks, and waits for {_whose(pending)} answer:",
                *question_lines(pending["asks"]),
                f"  answer it: {_command_for('answer', pending, running)} TEXT",
                f"  refuse it: {_command_for('reject', pending, running)}",
            ]
            continue
        lines += [
            f"{describe(pending)} waits for {_whose(pending)} decision:",
            f"  allow it:  {_command_for('approve', pending, running)}",
            f"  refuse it: {_command_for('reject', pending, running)}",
        ]
    return lines
