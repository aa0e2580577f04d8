"""How much of a section a prompt shows: all of it, or a summary that the model may ask to have opened.

A prompt has a section's own setting, over that what the session holds, over that what is given to `render`. A session
keeps settings as one value, `VisibilityOverrides`, that `SetVisibilityOverride` and `ClearVisibilityOverride` change:
plain data, so a snapshot or a journal can hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from demiurge.sessions.reducers import reducer, reducers_of
from demiurge.sessions.session import Session

__all__ = [
    "ClearVisibilityOverride",
    "SectionPath",
    "SectionVisibility",
    "SetVisibilityOverride",
    "VisibilityOverrides",
    "dotted",
    "fold_visibility",
    "set_visibility",
]

SectionPath: TypeAlias = tuple[str, ...]
"""The keys from the top of a prompt down to a section."""


def dotted(path: SectionPath) -> str:
    """A path as people and models read it. It names one section of a template: see PromptTemplate."""
    return ".".join(path)


class SectionVisibility(StrEnum):
    """`full`: the text, the children and the tools. `summary`: the summary, and no tools."""

    FULL = "full"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class SetVisibilityOverride:
    """From now on, show the section at `path` so. Raises TypeError for a path that is no tuple."""

    path: SectionPath
    visibility: SectionVisibility

    def __post_init__(self) -> None:
        if not isinstance(self.path, tuple):
            raise TypeError(f"a path is a tuple of keys, such as ('guidance',), not {self.path!r}")


@dataclass(frozen=True, slots=True)
class ClearVisibilityOverride:
    """Leave the section at `path` to itself again."""

    path: SectionPath


@dataclass(frozen=True, slots=True)
class VisibilityOverrides:
    """What a session says about sections: at most one entry for each path, the latest last."""

    entries: tuple[SetVisibilityOverride, ...] = ()

    @reducer(on=SetVisibilityOverride)
    def on_set(self, event: SetVisibilityOverride) -> VisibilityOverrides:
        return VisibilityOverrides((*self._without(event.path), event))

    @reducer(on=ClearVisibilityOverride)
    def on_clear(self, event: ClearVisibilityOverride) -> VisibilityOverrides:
        return VisibilityOverrides(self._without(event.path))

    def by_path(self) -> Mapping[SectionPath, SectionVisibility]:
        return {entry.path: entry.visibility for entry in self.entries}

    def _without(self, path: SectionPath) -> tuple[SetVisibilityOverride, ...]:
        return tuple(entry for entry in self.entries if entry.path != path)


_REDUCERS = MappingProxyType(reducers_of(VisibilityOverrides, VisibilityOverrides()))
"""Made once: a session tells reducers apart by identity."""


def fold_visibility(session: Session) -> None:
    """From now on `session[VisibilityOverrides]` is what the events about visibility come to. Asking twice is asking
    once."""
    for event_type, fold in _REDUCERS.items():
        session[VisibilityOverrides].register(event_type, fold)


def set_visibility(session: Session, overrides: Mapping[SectionPath, SectionVisibility]) -> None:
    """Keeps these settings in the session, as a loop does that grants what a model asked to see: every prompt that is
    rendered for the session has them."""
    fold_visibility(session)
    for path, visibility in overrides.items():
        session.broadcast(SetVisibilityOverride(path, visibility))
