"""Snapshots: the slices of a session at one moment. They cost nothing to keep, can be restored, and can be written
as text.

The text names each slice by the module and name of its type, and is read only with the types that the reader names,
so a text cannot choose which classes are instantiated. Values that would not be read back equal are refused when the
text is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from demiurge.sessions.changes import SliceHistories
from demiurge.sessions.errors import SnapshotError, SnapshotRestoreError
from demiurge.sessions.history import EMPTY, History
from demiurge.values.article import with_article

__all__ = ["SessionSnapshot"]


@dataclass(frozen=True, slots=True, eq=False)
class SessionSnapshot:
    """`held`: the slices; `session_id` and `tags`: of the session; `taken_at`: when (UTC); `tag`: the label passed
    to `snapshot`. `snapshot[T]` are the values of one slice."""

    held: SliceHistories
    session_id: UUID | str
    taken_at: datetime
    tag: str | None = None
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __getitem__(self, slice_type: type[Any]) -> tuple[Any, ...]:
        """Returns the slice's values in the snapshot, oldest first."""
        return self.held.get(slice_type, EMPTY).all()

    def to_json(self) -> str:
        """Returns the snapshot as text. Raises SnapshotError for values that would not be read back equal: of a type
        that JSON cannot represent, of a subclass of their slice's type, or with fields that do not have their
        declared type."""
        slices = {_name(kind): _dump(kind, history.all()) for kind, history in self.held.items()}
        written = _SnapshotText(
            session_id=self.session_id, taken_at=self.taken_at, tag=self.tag, tags=dict(self.tags), slices=slices
        )
        return written.model_dump_json()

    @staticmethod
    def from_json(text: str | bytes, types: Iterable[type[Any]]) -> SessionSnapshot:
        """Returns the snapshot that `to_json` wrote; `types` are the types of all its slices. Raises
        SnapshotRestoreError for any other text, for a slice whose type is not among `types`, and for values that
        their type does not accept."""
        try:
            written = _SnapshotText.model_validate_json(text)
        except ValueError as error:
            raise SnapshotRestoreError("This text is not a snapshot of a session.") from error
        by_name = {_name(kind): kind for kind in types}
        held: dict[type[Any], History[Any]] = {}
        for name, values in written.slices.items():
            if name not in by_name:
                raise SnapshotRestoreError(f"The snapshot has a slice {name}: add its type to `types`.")
            held[by_name[name]] = History(_load(by_name[name], values))
        tags = MappingProxyType(written.tags)
        return SessionSnapshot(held, written.session_id, written.taken_at, written.tag, tags)


class _SnapshotText(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["session-snapshot/1"] = "session-snapshot/1"
    session_id: UUID | str
    taken_at: datetime
    tag: str | None
    tags: dict[str, str]
    slices: dict[str, list[Any]]


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _dump(kind: type[Any], values: tuple[Any, ...]) -> list[Any]:
    stray = next((value for value in values if type(value) is not kind), None)
    if stray is not None:
        raise SnapshotError(
            f"The slice {kind.__name__} holds {with_article(type(stray).__name__)}, which could not be read back."
        )
    try:
        adapter = TypeAdapter(tuple[kind, ...])  # type: ignore[valid-type]
        text = adapter.dump_json(values, warnings="error")
        same = adapter.validate_json(text, strict=True) == values
    except (ValueError, TypeError, PydanticUserError, PydanticSchemaGenerationError) as error:
        raise SnapshotError(f"The slice {kind.__name__} can't be written as JSON.") from error
    if not same:
        raise SnapshotError(f"The slice {kind.__name__} would not be read back from JSON unchanged.")
    dumped: list[Any] = json.loads(text)
    return dumped


def _load(kind: type[Any], values: list[Any]) -> tuple[Any, ...]:
    try:
        adapter = TypeAdapter(tuple[kind, ...])  # type: ignore[valid-type]
        loaded = adapter.validate_json(json.dumps(values), strict=True)
        known = _covers(json.loads(adapter.dump_json(loaded)), values)
    except (ValueError, TypeError, PydanticUserError, PydanticSchemaGenerationError) as error:
        raise SnapshotRestoreError(f"The snapshot has values that {kind.__name__} does not take.") from error
    if not known:
        raise SnapshotRestoreError(f"The snapshot has fields that {kind.__name__} does not have.")
    return loaded


def _covers(dumped: Any, written: Any) -> bool:
    """Returns whether `dumped` has every field of `written`. More fields are allowed: a type may have new ones with
    defaults."""
    if isinstance(written, dict):
        return isinstance(dumped, dict) and all(key in dumped and _covers(dumped[key], written[key]) for key in written)
    if isinstance(written, list):
        return isinstance(dumped, list) and all(map(_covers, dumped, written))
    return True
