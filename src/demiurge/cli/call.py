"""The display of a tool call that a person made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from demiurge.bootstrap.call import CallOutcome
from demiurge.bootstrap.told_text import told_problem
from demiurge.cli import output
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.settings import settings
from demiurge.cli.waiting import pending_lines
from demiurge.cli.world import RunOptions
from demiurge.tools.errors import ToolErrorCode

__all__ = ["call_document", "show_call"]


def call_document(outcome: CallOutcome) -> dict[str, Any]:
    return asdict(outcome) | {"unit": str(outcome.unit)}


def show_call(
    outcome: CallOutcome, waiting: Sequence[Mapping[str, Any]], running: RunOptions, *, is_last: bool
) -> None:
    """Prints the outcome. `is_last`: as for `pending_lines`. Raises OutcomeError if the call failed, or waits for
    approval."""
    shown = call_document(outcome)
    if outcome.ok:
        output.result(shown, outcome.content)
        for each in outcome.attachments:
            output.notice(_attachment_line(each))
        if outcome.replayed:
            output.notice("An equal call was done before; this is its answer, and nothing ran.")
        return
    if outcome.approval is not None and not settings().json:
        pending = [entry for entry in waiting if entry["id"] == outcome.approval]
        output.write("\n".join(pending_lines(pending, running, is_last=is_last)))
    code = outcome.error_code or outcome.status
    raise OutcomeError(code, _reason(outcome) or f"The call {outcome.call_id} has not ended.", shown)


def _attachment_line(part: Mapping[str, Any]) -> str:
    """Returns a line about an image, a sound or a file of a result, with the command that saves it."""
    saves = f"demiurge blob get {part['bytes_ref']} --out {part['type']}"
    return runnable(f"{part['type']} ({part['mime']}): `{saves}`")


def _reason(outcome: CallOutcome) -> str:
    """Returns why a call failed. The text for the model says more: the unknown arguments, which the person typed, and
    the words of the tool, which whoever calls it may read."""
    if outcome.error_code == ToolErrorCode.QUARANTINED and outcome.tool.startswith("mcp__"):
        server = outcome.tool.split("__")[1]
        return (
            f"Nobody has trusted the text that {server} lists for this tool now. `demiurge mcp show {server}` shows "
            f"it, `demiurge mcp diff {server}` what changed."
        )
    if outcome.error_code == ToolErrorCode.UNKNOWN_OUTCOME:
        return runnable(f"unknown_outcome: {outcome.message} It is not made again; `demiurge doubts ls` lists it.")
    return told_problem(outcome.error_code, outcome.message, outcome.content)
