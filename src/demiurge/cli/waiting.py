"""How to go on with calls that wait for a person, when there is no terminal to ask on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from demiurge.cli import output
from demiurge.cli.approval import SHORT, describe
from demiurge.cli.hints import command_line
from demiurge.cli.question import question_lines
from demiurge.cli.tool_questions import input_lines
from demiurge.cli.world import RunOptions
from demiurge.tools.taint_words import taint_reason

__all__ = ["decision_lines", "pending_lines"]

ENDS: Final = (
    "  The server takes the answer only while this process runs, so the call ends now. Call it where you can answer"
)


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


def _answer_words(asked: Mapping[str, Any]) -> str:
    """Returns the rest of the command line that answers the questions of a tool."""
    kinds = {question["kind"] for question in asked["questions"]}
    if len(asked["questions"]) > 1:
        return " --content '{\"KEY\": {...}, ...}'"
    return {"form": " --field NAME=VALUE ...", "url": " --done", "text": " TEXT"}[kinds.pop()]


def decision_lines(pending: Mapping[str, Any], running: RunOptions) -> list[str]:
    """Returns the command lines that decide on a call."""
    return [
        f"  allow it:  {_command_for('approve', pending, running)}",
        f"  refuse it: {_command_for('reject', pending, running)}",
    ]


def pending_lines(waiting: Sequence[Mapping[str, Any]], running: RunOptions, *, is_last: bool) -> list[str]:
    """Returns a description of each waiting call, and the command lines that decide on it. `is_last`: no process has
    the world open once this one has ended."""
    lines: list[str] = []
    for pending in waiting:
        if pending["input"] is not None:
            lines += [
                f"{describe(pending)} waits for {_whose(pending)} answer.",
                *input_lines(pending["input"]),
            ]
            if pending["input"]["tied_to_process"] and is_last:
                lines += [
                    ENDS,
                    f"  it: `{command_line('chat')}` at a terminal, or while `{command_line('serve')}` runs.",
                ]
                continue
            lines += [
                f"  answer it: {_command_for('answer', pending, running)}{_answer_words(pending['input'])}",
                f"  or not:    {_command_for('answer', pending, running)} --decline",
            ]
            continue
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
            *([f"  asked because {taint_reason(pending['tainted'])}"] if pending.get("tainted") else []),
            *decision_lines(pending, running),
        ]
    return lines
