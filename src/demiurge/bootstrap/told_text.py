"""The parts of a text for the model about a call that a person is shown."""

from __future__ import annotations

import json

from demiurge.tools.errors import ToolErrorCode
from demiurge.world.effects.edited_answer import edit_note

__all__ = ["told_problem", "without_note"]


def told_problem(code: str | None, message: str, content: str | None) -> str:
    """Returns why a call failed: the safe `message`, or what the model was told (`content`) where that says more: the
    unknown arguments, and the tool's own words. `content` is None for a person who may not see it."""
    if code not in (ToolErrorCode.VALIDATION, ToolErrorCode.EXECUTION):
        return message
    try:
        return str(json.loads(without_note(content or ""))["message"])
    except (ValueError, LookupError, TypeError):  # the text was erased, or is withheld
        return message


def without_note(content: str) -> str:
    """Returns what the model was given without the note that a person changed the call, which is shown apart."""
    return content.removeprefix(f"{note}\nResult: ") if (note := edit_note(content)) else content
