"""One page of a list that a world returns as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from fastapi import Query

from demiurge.errors import NotFound

__all__ = ["After", "PageLimit", "page_of"]


class HasId(Protocol):
    """Something in a list, by its id."""

    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=HasId)

After = Annotated[str | None, Query(max_length=256, description="Only what follows the one with this id: `next`.")]
PageLimit = Annotated[int, Query(ge=1, le=1000)]


def page_of(found: Sequence[Item], after: str | None, limit: int) -> tuple[list[Item], str | None]:
    """Returns what follows `after`, at most `limit` of it, and the `after` that reads on; None if there is no more.
    Raises NotFound (`no_place`) if nothing in the list has the id `after`."""
    start = 0
    if after is not None:
        start = next((at + 1 for at, item in enumerate(found) if item.id == after), -1)
        if start < 0:
            raise NotFound(f"Nothing in this list has the id {after!r}; read it from its start.", code="no_place")
    shown = list(found[start : start + limit])
    return shown, shown[-1].id if start + limit < len(found) else None
