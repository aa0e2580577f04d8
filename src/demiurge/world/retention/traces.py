"""Traces: where else the words of blobs are. Finds copies that are erased with them, messages that quote them, and what
stays.

A copy was made by the same receipt as a blob: an answer in the provider's own order with the model's thoughts, a
tool's result as its public view, its record, its events and the session states that they led to. A blob that another
receipt made too is not only a copy, so it is reported and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from demiurge.errors import Damaged, DemiurgeError, NotFound, UsageError
from demiurge.stores.gc_barrier import named_in
from demiurge.stores.protocol import Store
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import Ref, parse_ref, ref_digest, ref_from_digest
from demiurge.world.record import Record, decode_row
from demiurge.world.retention.words import ErasedWords, message_of, texts_of

__all__ = ["NODE", "Mention", "Traces", "named_elsewhere", "traces_of"]

NODE: Final = cbor.encode(None)[:3]
"""The first bytes of every node of the world itself."""

WHOLE: Final = ("output_ref", "message_ref")
"""The fields of a receipt that name an answer or a result: all that the receipt made is a copy of it."""

_LARGE: Final = 1 << 20


class Mention(NamedTuple):
    """Something that holds or quotes the words. `kind` is `message`, `blob`, `node`, `record`, `ledger`, `file` or
    `damaged`; `name` is its address or path, or its record and field; `units` are the units that name it."""

    kind: str
    name: str
    units: tuple[str, ...] = ()


@dataclass(slots=True)
class Traces:
    """The outcome of a search. `records` of the `units` name the blobs; `copies` are erased with them, each with the
    blob that it copies; `quotes` are other messages and blobs; `inline` is what holds the words and cannot be erased;
    `sessions` are the units whose folded session holds a result of them."""

    records: int = 0
    units: list[str] = field(default_factory=list)
    copies: dict[Ref, Ref] = field(default_factory=dict)
    quotes: list[Mention] = field(default_factory=list)
    inline: list[Mention] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)


def traces_of(store: Store, refs: Set[Ref], words: ErasedWords, unit_of_erasures: str) -> Traces:
    """Searches every record and every blob. Raises UsageError (`needed`: a blob is code that a history ran on), Damaged
    (a record), and what reading an archive raises."""
    found = Traces()
    group = _Group(store, refs, words)
    digests = {ref_digest(ref): ref for ref in refs}
    for row in store.read_all():
        if row.unit == unit_of_erasures:
            continue
        record = decode_row(row)
        named = digests.keys() & named_in(row.data)
        if named:
            if row.kind == "manifest":
                code = min(digests[digest] for digest in named)
                raise UsageError(f"{code} is code that {row.unit} ran on, and is needed to replay it.", code="needed")
            found.records += 1
            if row.unit not in found.units:
                found.units.append(row.unit)
        group.look(record)
        where = words.stated_in(record.body) if words.texts and words.may_stand_in(row.data) else None
        if where is not None:
            found.inline.append(Mention("record", f"{row.unit} {row.unit_seq}: {where}", (row.unit,)))
    found.copies, found.sessions = group.copies()
    quoting = dict(_blobs(store, {*refs, *found.copies}, words, found.inline)) if words.texts else {}
    units = _units_of(store, quoting)
    found.quotes = [Mention(kind, each, tuple(units.get(each, ()))) for each, kind in quoting.items()]
    return found


def named_elsewhere(store: Store, refs: Set[Ref], units: Set[str]) -> set[Ref]:
    """Returns those of `refs` that a record of any unit but `units` names."""
    digests = {ref_digest(ref): ref for ref in refs}
    found: set[Ref] = set()
    for row in store.read_all():
        if row.unit not in units:
            found.update(digests[digest] for digest in digests.keys() & named_in(row.data))
    return found


class _Group:
    """The blobs that were made by the same receipts as the blobs `refs`."""

    def __init__(self, store: Store, refs: Set[Ref], words: ErasedWords) -> None:
        self._store, self._refs, self._words = store, refs, words
        self._mine: dict[Ref, Ref] = {}
        self._others: set[Ref] = set()
        self._later: dict[str, dict[Ref, Ref]] = {}
        self._result: dict[str, Ref] = {}

    def look(self, record: Record) -> None:
        """Takes the next record, in the order of positions."""
        if record.kind != "receipt" or not isinstance(record.body["payload"], Mapping):
            self._others.update(record.refs if record.is_ingress and record.kind == "event" else ())
            return
        payload = record.body["payload"]
        session = payload.get("session_ref")
        pieces = set(self._pieces(session))
        refs = [ref for ref in record.refs if ref not in pieces and ref not in (session, payload.get("usage_ref"))]
        mine = next((ref for ref in record.refs if ref in self._refs), None)
        if mine is not None:
            whole = next((payload[name] for name in WHOLE if payload.get(name) in self._refs), None)
            for ref in refs:
                if whole is not None or self._holds(ref):
                    self._mine.setdefault(ref, whole or mine)
            if whole is not None and payload.get("events_ref") is not None:
                self._later.setdefault(record.unit, {})
                self._result.setdefault(record.unit, whole)
        else:
            self._others.update(refs)
        if session is not None:
            if record.unit in self._later:
                self._later[record.unit].update(dict.fromkeys([session, *pieces], self._result[record.unit]))
            else:
                self._others.update((session, *pieces))

    def copies(self) -> tuple[dict[Ref, Ref], list[str]]:
        """Returns the copies, each with the blob that it copies, and the units whose session holds a result."""
        found = {ref: of for later in (self._mine, *self._later.values()) for ref, of in later.items()}
        return {ref: of for ref, of in found.items() if ref not in self._refs and self._may_go(ref)}, list(self._later)

    def _may_go(self, ref: Ref) -> bool:
        try:
            return ref not in self._others and not self._store.get_blob(ref).startswith(NODE)
        except Damaged:
            return True
        except NotFound:
            return False

    def _holds(self, ref: Ref) -> bool:
        with suppress(DemiurgeError):
            return self._words.copied_in(self._store.get_blob(ref))
        return False

    def _pieces(self, session: str | None) -> Iterator[Ref]:
        """Yields the blobs that a checkpoint of a session names."""
        if session is not None:
            with suppress(DemiurgeError, KeyError, TypeError, AttributeError):
                checkpoint = canonical_json.parse_object(self._store.get_blob(parse_ref(session)))
                for written in checkpoint["slices"].values():
                    yield from map(parse_ref, written["pieces"])


def _blobs(store: Store, excluded: set[Ref], words: ErasedWords, inline: list[Mention]) -> Iterator[tuple[Ref, str]]:
    """Yields the other blobs that hold or quote the words; nodes that hold them are added to `inline`."""
    for ref in store.iter_blobs():
        if ref in excluded:
            continue
        try:
            data = store.get_blob(ref)
        except Damaged:
            inline.append(Mention("damaged", ref))
            continue
        except NotFound:
            continue
        message = message_of(data) if len(data) <= _LARGE else None
        if message is not None:
            says = words.copied_in if message["role"] in ("system", "developer") else words.quoted_in
            if any(map(says, texts_of(message))):
                yield ref, "message"
        elif words.copied_in(data):
            if data.startswith(NODE):
                inline.append(Mention("node", ref))
            else:
                yield ref, "blob"


def _units_of(store: Store, refs: Iterable[Ref]) -> dict[Ref, list[str]]:
    wanted = {ref_digest(ref) for ref in refs}
    found: dict[Ref, list[str]] = {}
    for row in store.read_all() if wanted else ():
        for digest in wanted & named_in(row.data):
            units = found.setdefault(ref_from_digest(digest), [])
            if row.unit not in units:
                units.append(row.unit)
    return found
