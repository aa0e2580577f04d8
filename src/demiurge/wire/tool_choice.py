"""Checks a tool choice before it is encoded."""

from __future__ import annotations

from collections.abc import Sequence

from demiurge.errors import InvalidValue
from demiurge.tools.spec import ToolSpec
from demiurge.wire.items import NamedTool

__all__ = ["check_choice"]

_WORDS = ("auto", "none", "required")


def check_choice(specs: Sequence[ToolSpec], tool_choice: object) -> None:
    """Raises InvalidValue unless the choice is None, `auto`, `none`, `required`, or a NamedTool of one of the specs.
    Without specs every name is accepted, because the request then has no choice."""
    if isinstance(tool_choice, NamedTool):
        if specs and all(spec.name != tool_choice.name for spec in specs):
            raise InvalidValue(
                f"The tool {tool_choice.name!r} is not one of the request's tools: offer it or choose another.",
                path="tool_choice",
            )
    elif tool_choice is not None and tool_choice not in _WORDS:
        raise InvalidValue(
            f"A tool choice is one of {', '.join(_WORDS)} or a NamedTool, not {tool_choice!r}.", path="tool_choice"
        )
