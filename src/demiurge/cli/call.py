"""The display of a tool call that a person made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from demiurge.bootstrap.call import CallOutcome
from demiurge.cli import output
from demiurge.cli.failure import OutcomeError
from demiurge.cli.settings import settings
from demiurge.cli.waiting import pending_lines
from demiurge.cli.world import RunOptions
from demiurge.tools.errors import ToolErrorCode

__all__ = ["call_document", "show_call"]


def call_document(outcome: CallOutcome) -> dict[str, Any]:
    return asdict(outcome) | {"unit": str(outcome.unit)}


def show_call(outcome: CallOutcome, waiting: Sequence[Mapping[str, Any]], running: RunOptions) -> None:
    """Prints the outcome. Raises OutcomeError if the call failed or waits for approval."""
    shown = call_document(outcome)
    if outcome.ok:
        output.result(shown, outcome.content)
        if outcome.replayed:
            output.notice("An equal call was done before; this is its answer, and nothing ran.")
        return
    if outcome.approval is not None and not settings().json:
        pending = [entry for entry in waiting if entry["id"] == outcome.approval]
        output.write("\n".join(pending_lines(pending, running)))
    code = outcome.error_code or outcome.status
    raise OutcomeError(code, _reason(outcome) or f"The call {outcome.call_id} has not ended.", shown)


def _reason(outcome: CallOutcome) -> str:
    """Returns why a call failed. The text for the model also names the unknown arguments, which the person typed."""
    if outcome.error_code != ToolErrorCode.VALIDATION:
        return outcome.message
    try:
        return str(json.loads(outcome.content)["message"])
    except (ValueError, LookupError, TypeError):  # the text was erased
        return outcome.message
