"""Visibility: whether a prompt shows a section in full, or a summary that the model may ask to open.

The argument of `render` takes precedence over the session's setting, and the session's over the section's own. A
session keeps its settings as one value, `VisibilityOverrides`, which `SetVisibilityOverride` and
`ClearVisibilityOverride` change: plain data, so a snapshot or a journal can hold it.
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
    """Returns a path as people and models read it. It names one section of a template: see PromptTemplate."""
    return ".".join(path)


class SectionVisibility(StrEnum):
    """`full`: the text, the children and the tools. `summary`: the summary, and no tools."""

    FULL = "full"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class SetVisibilityOverride:
    """Sets the visibility of the section at `path` from now on. Raises TypeError for a path that is not a tuple."""

    path: SectionPath
    visibility: SectionVisibility

    def __post_init__(self) -> None:
        if not isinstance(self.path, tuple):
            raise TypeError(f"a path must be a tuple of keys, such as ('guidance',), not {self.path!r}")


@dataclass(frozen=True, slots=True)
class ClearVisibilityOverride:
    """Removes the session's setting for the section at `path`."""

    path: SectionPath


@dataclass(frozen=True, slots=True)
class VisibilityOverrides:
    """The settings of a session: at most one entry for each path, the latest last."""

    entries: tuple[SetVisibilityOverride, ...] = ()

    @reducer(on=SetVisibilityOverride)
    def on_set(self, event: SetVisibilityOverride) -> VisibilityOverrides:
        return VisibilityOverrides((*self._without(event.path), event))

    @reducer(on=ClearVisibilityOverride)
    def on_clear(self, event: ClearVisibilityOverride) -> VisibilityOverrides:
        return VisibilityOverrides(self._without(event.path))

    def by_path(self) -> Mapping[SectionPath, SectionVisibility]:
        """Returns the visibility by path."""
        return {entry.path: entry.visibility for entry in self.entries}

    def _without(self, path: SectionPath) -> tuple[SetVisibilityOverride, ...]:
        return tuple(entry for entry in self.entries if entry.path != path)


_REDUCERS = MappingProxyType(reducers_of(VisibilityOverrides, VisibilityOverrides()))
"""Made once, because a session compares reducers by identity."""


def fold_visibility(session: Session) -> None:
    """Registers the reducers of `VisibilityOverrides` in the session; a second call does nothing."""
    for event_type, fold in _REDUCERS.items():
        session[VisibilityOverrides].register(event_type, fold)


def set_visibility(session: Session, overrides: Mapping[SectionPath, SectionVisibility]) -> None:
    """Stores these settings in the session, so that every prompt rendered for it uses them. A loop calls it to open
    the sections that a model asked for."""
    fold_visibility(session)
    for path, visibility in overrides.items():
        session.broadcast(SetVisibilityOverride(path, visibility))
