"""The definitions of MCP tools that this user was shown last, by tool id.

A server may list another text between the moment at which a person reads it and the moment at which they trust it. So
what was shown is remembered, and a text that took its place is not trusted unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from demiurge.bootstrap.trust.world_profile import WorldProfile, recall, remember
from demiurge.errors import DemiurgeError

__all__ = ["note_shown", "shown_pins"]

MOST: Final = 512
"""The number of latest definitions that are kept."""


def note_shown(environment: Mapping[str, str], folder: Path, pins: Mapping[str, str]) -> None:
    """Remembers that the user was shown the definitions with these pins, by tool id. A record that can't be written
    is left as it is: then a text counts as one that was not shown."""

    def noted(kept: WorldProfile) -> WorldProfile:
        known = _pins(kept)
        others = {tool: pin for tool, pin in known.items() if tool not in pins}
        return kept if known == {**known, **pins} else replace(kept, shown=tuple({**others, **pins}.items())[-MOST:])

    with suppress(DemiurgeError):
        remember(environment, folder, noted)


def shown_pins(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Returns the pin of the definition that the user was shown last, by tool id."""
    try:
        return _pins(recall(environment, folder) or WorldProfile())
    except DemiurgeError:
        return {}


def _pins(kept: WorldProfile) -> dict[str, str]:
    return dict(kept.shown)
