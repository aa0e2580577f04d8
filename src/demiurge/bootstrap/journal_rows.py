"""Records of the journal as the rows of a list: a short description and the state of each record, without its body.

A row is `{position, unit, seq, kind, time_ns, hash, redacted, says, state, why, by, refs}`. `says`, `state`, `why` and
`by` are those of a causal trace (`world.history.trace`); the row of a receipt or a decision on a call names the call.
Rows are made from the records as the caller may see them (`Journal.views`), and a search sees nothing else, so withheld
values are not found either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.journal import PAGE
from demiurge.bootstrap.trace_view import TraceRecord
from demiurge.values.json_view import json_view
from demiurge.world.history.trace import TraceLine, trace

__all__ = ["LOOKED_AT", "RowPage", "RowQuery", "rows", "search_rows"]

LOOKED_AT: Final = 5000
"""The least number of records that one search examines; the next search continues after them."""

ENDINGS: Final = frozenset({"receipt", "decision", "approval"})
"""The records that end an intent, or decide on it."""

BAD: Final = frozenset({"failed", "denied", "rejected", "expired", "stopped", "unknown_outcome", "awaiting_approval"})
"""The states of records that need attention."""

View = Mapping[str, Any]
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A search. `text` occurs in the record as the caller may see it, in upper or lower case; `attention`: only records
    that failed or that wait for a person; `calls`: only intents, each with the record that ended it."""

    text: str = ""
    unit: str | None = None
    kind: str | None = None
    attention: bool = False
    calls: bool = False


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows, newest first. `before` is where an older page begins, None if there is none; `looked_at` is the number of
    records that this page was chosen from."""

    rows: list[dict[str, Any]]
    before: int | None
    looked_at: int


def rows(backend: Backend, unit: str | None, start: int, limit: int) -> list[dict[str, Any]]:
    """Returns the rows of at most `limit` records from `start` on: a position, or a sequence number of `unit`."""
    views = backend.read.records(unit, start, limit)
    known = _Known(backend, views)
    return [known.row(view) for view in views]


def search_rows(backend: Backend, query: RowQuery, before: int, limit: int) -> RowPage:
    """Returns at most `limit` rows of records before `before` (a position, or a sequence number of `query.unit`) that
    the query asks for, newest first. Reads until they are found or `LOOKED_AT` records were looked at."""
    found: list[dict[str, Any]] = []
    end, looked, first = before, 0, 1 if query.unit is None else 0
    while end > first and looked < LOOKED_AT:
        start = max(first, end - PAGE)
        views = backend.read.records(query.unit, start, end - start)
        known = _Known(backend, views)
        for view in reversed(views):
            if len(found) == limit:
                return RowPage(found, end, looked)
            end = view["position" if query.unit is None else "seq"]
            looked += 1
            row = known.matching_row(view, query)
            if row is not None:
                found.append(row)
        end = start
    return RowPage(found, end if end > first else None, looked)


class _Known:
    """Some records, and what else has to be read to say how the intents among them ended."""

    def __init__(self, backend: Backend, views: Sequence[View]) -> None:
        self._backend = backend
        self._at: dict[Place, View] = {(view["unit"], view["seq"]): view for view in views}
        self._endings: dict[Place, list[View]] = {}
        for view in views:
            if view["kind"] in ENDINGS and isinstance(view["cause"], int):
                self._endings.setdefault((view["unit"], view["cause"]), []).append(view)

    def matching_row(self, view: View, query: RowQuery) -> dict[str, Any] | None:
        """Returns the row of a record that the query asks for, else None."""
        if query.kind not in (None, view["kind"]) or (query.calls and view["kind"] != "intent"):
            return None
        row = self.row(view)
        if query.calls:
            row |= self._ended(view)
        if query.attention and row["state"] not in BAD:
            return None
        return row if query.text == "" or query.text.lower() in _text_of(view, row) else None

    def row(self, view: View) -> dict[str, Any]:
        """Returns the row of a record."""
        line = next(iter(self._lines(view)), None)
        says, state, why, by = (line.says, line.state, line.why, line.by) if line is not None else ("", "", "", "")
        if view["kind"] == "approval" or (view["kind"] in ENDINGS and says == ""):
            says = ": ".join(filter(None, (says, self._intent_of(view))))
        names = ("position", "unit", "seq", "kind", "time_ns", "hash", "redacted")
        return {
            **{name: view[name] for name in names},
            "says": says,
            "state": state or None,
            "why": why or None,
            "by": by or None,
            "refs": len(view["refs"]),
        }

    def _ended(self, intent: View) -> dict[str, Any]:
        """Returns the state of a call after all that followed: `{state, why, by, ended_ns}`."""
        lines = self._lines(intent)
        if not lines:
            return {"ended_ns": None}
        said = [line for line in lines if line.state not in ("", "ok")]
        told = next((line for line in said if line.state != "answered"), said[0] if said else None)
        ending = next((line for line in lines if line.record.kind in ("receipt", "decision")), told)
        state = told.state if told is not None else "done" if ending is not None else None
        is_open = state in ("running", "awaiting_approval", None)
        return {
            "state": state,
            "why": (told.why or None) if told is not None else None,
            "by": (told.by or None) if told is not None else None,
            "ended_ns": None if is_open or ending is None else ending.record.time_ns,
        }

    def _lines(self, view: View) -> list[TraceLine[TraceRecord]]:
        """Returns the lines of a record; of an intent also those of the records that end it."""
        if _is_withheld(view["body"]):
            return []
        following: Iterable[View] = ()
        if view["kind"] == "intent":
            following = self._endings_of(view)
        return trace([TraceRecord.of(view), *map(TraceRecord.of, following)])

    def _endings_of(self, intent: View) -> list[View]:
        place = intent["unit"], intent["seq"]
        known = self._endings.get(place, [])
        if any(view["kind"] != "approval" for view in known):
            return known
        if place not in self._endings or known:
            later = self._backend.read.records(intent["unit"], intent["seq"] + 1, PAGE)
            self._endings[place] = [v for v in later if v["kind"] in ENDINGS and v["cause"] == intent["seq"]]
        return self._endings[place]

    def _intent_of(self, view: View) -> str:
        """Returns what the intent says that a receipt or a decision belongs to."""
        if not isinstance(view["cause"], int):
            return ""
        place = view["unit"], view["cause"]
        if place not in self._at:
            read = self._backend.read.records(view["unit"], view["cause"], 1)
            self._at.update({(each["unit"], each["seq"]): each for each in read})
        intent = self._at.get(place)
        if intent is None or intent["kind"] != "intent" or _is_withheld(intent["body"]):
            return ""
        return trace([TraceRecord.of(intent)])[0].says


def _text_of(view: View, row: Mapping[str, Any]) -> str:
    body = json.dumps(json_view(view["body"]), ensure_ascii=False)
    actor = (view["caller"] or {}).get("actor", "")
    return "\n".join(_texts((row["says"], row["why"], view["unit"], view["kind"], view["hash"], actor, body))).lower()


def _texts(values: Iterable[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


def _is_withheld(body: View) -> bool:
    return set(body) == {"$withheld"}
