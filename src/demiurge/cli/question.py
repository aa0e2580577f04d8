"""A question that waits, and of one of the model (`core__ask_user`) the display and the choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.cli import output
from demiurge.cli.barred import barred
from demiurge.errors import UsageError
from demiurge.tools.ids import ASK_USER

__all__ = ["choice_text", "is_question", "question_lines", "question_summary"]


def is_question(pending: Mapping[str, Any]) -> bool:
    """Returns whether a waiting call is a question, which takes an answer and no approval."""
    return bool(pending["tool"] == ASK_USER or pending.get("input") is not None)


def question_lines(asks: Mapping[str, Any]) -> list[str]:
    """Returns the question and its choices. Each line is marked, so that a question cannot look like the words of this
    program; invisible characters are escaped."""
    asked = barred("\n".join(asks["question"].splitlines()))
    return asked + [f"  {number}  {_one_line(choice)}" for number, choice in enumerate(asks["choices"] or (), 1)]


def question_summary(asks: Mapping[str, Any]) -> str:
    """Returns the question and its choices in one line."""
    choices = ", ".join(f"{number} {_one_line(choice)}" for number, choice in enumerate(asks["choices"] or (), 1))
    return _one_line(asks["question"]) + (f" [{choices}]" if choices else "")


def _one_line(text: str) -> str:
    return output.spelled_out(" ".join(text.split()))


def choice_text(asks: Mapping[str, Any], number: int) -> str:
    """Returns the choice with this number, from 1. Raises UsageError (`no_choice`)."""
    choices = asks["choices"] or ()
    if not 1 <= number <= len(choices):
        there = f"choices 1 to {len(choices)}" if choices else "no choices"
        raise UsageError(f"There is no choice {number}: this question has {there}.", code="no_choice")
    return str(choices[number - 1])
