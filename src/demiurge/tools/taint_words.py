"""The sentence that tells a person why a call of a tainted run is asked about."""

from __future__ import annotations

from collections.abc import Sequence

from demiurge.visible_text import visible_name

__all__ = ["taint_reason"]


def taint_reason(tools: Sequence[str]) -> str:
    """Returns, as a part of a sentence, that the turn has read text of these untrusted tools. Their ids are
    cut and hide nothing (`visible_name`)."""
    *others, last = map(visible_name, tools)
    named = f"{', '.join(others)} and {last}" if others else last
    return f"this turn has read text from {named}, which {'are' if others else 'is'} not trusted"
