"""Causal trees as data: the consequences of an event, how each ended, and where the time went.

A tree is made of the records as the caller may see them (`Journal.views`). So a caller who may see what is public alone
gets the same tree without private values, and nothing here decides on that.

Finding an event by its hash reads the journal once. A tree reads the journal from its event on: a consequence may come
at any later time, and in any unit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.message_body import MessageBody, told, told_ref
from demiurge.bootstrap.backend.visibility import sees_records
from demiurge.bootstrap.chat_state import Failed
from demiurge.bootstrap.failure import consequences, failure_in
from demiurge.bootstrap.journal import PAGE, Journal
from demiurge.bootstrap.stored_blobs import BlobReader
from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.tools.display import Cell, Table, View, shown
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_from_digest
from demiurge.world.effect_kinds import TOOL
from demiurge.world.history.trace import TraceLine, outcome, trace
from demiurge.world.record import Cause
from demiurge.world.routing import event_digest
from demiurge.world.unit import Unit

__all__ = [
    "SHORTEST_HASH",
    "TraceRecord",
    "TraceTree",
    "record_at",
    "records_of_chat",
    "records_of_hash",
    "trace_trees",
]

SHORTEST_HASH = 6
"""The least number of characters of a hash that must be given."""


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """A record as its reader may see it; `body` lacks what is withheld."""

    unit: str
    unit_seq: int
    position: int
    kind: str
    cause: Cause
    time_ns: int
    body: Mapping[str, Any]
    hash: str
    redacted: bool

    @classmethod
    def of(cls, view: Mapping[str, Any]) -> TraceRecord:
        """Returns the record for data in the form of `Journal.views`."""
        names = ("unit", "position", "kind", "cause", "time_ns", "redacted")
        return cls(
            unit_seq=view["seq"],
            hash=view["hash"].removeprefix("sha256:"),
            body=_shown(view["body"]),
            **{name: view[name] for name in names},
        )

    @property
    def place(self) -> tuple[str, int]:
        return self.unit, self.unit_seq

    @property
    def event_hash(self) -> Ref | None:
        """The hash of an event, as its sender got it. None for other records, and if the event is withheld."""
        if self.kind != "event" or self.redacted:
            return None
        return ref_from_digest(event_digest(self.body["schema"], self.body["value"], Unit.parse(self.unit).key))


Line = TraceLine[TraceRecord]

_BOOKKEEPING: Final = frozenset({"step", "manifest", "plan_ended", "receipt", "event"})
"""Kinds of records that a table of a tree leaves out if nothing went wrong."""

_DIGEST: Final = re.compile(r"(sha256:[0-9a-f]{8})[0-9a-f]{56}")


@shown
@dataclass(frozen=True, slots=True, repr=False)
class TraceTree:
    """The tree of one event. `state` is `done`, `failed`, `waiting` (for a person) or `running` (an effect has no
    receipt yet); `why` says why it failed, and `failure` is the whole sentence. `nodes` are its records in the order of
    the tree, the first one being the event:

    `{unit, seq, position, kind, hash, cause, depth, is_last, time_ns, says, state, why, by}`; `by` is the person whose
    decision the state is, else None. An intent has `phases` too, and a tool call `arguments_json`: its exact arguments,
    None with the reason in `arguments_problem` if they cannot be read, or may not be. Once it has ended, an intent of a
    tool call has `view_ref`, the address of the redacted result (None of a failure), and for a caller who sees records
    also `content`, the text that the model was given, and `value`, the whole value of the tool; of a content of more
    than 4000 characters the beginning, with their number as `content_cut`, and in place of a value of more than 4000
    bytes as JSON None, with their number as `value_cut`. `message_ref` and `value_ref` are the blobs with the whole
    content and, if `content` does not have it, the whole value.

    An approval or a rejection has `reason` if it may be read. A decision on a call has `tainted`, the untrusted tools
    whose text the turn had read, if there are some.

    `phases` is a list of `{phase, from_ns, to_ns}`: `person` while it waits for a decision, `queued` until it begins,
    and `running`; `to_ns` is None for one that goes on."""

    unit: str
    seq: int
    event_hash: str | None
    state: str
    why: str | None
    failure: str
    nodes: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<TraceTree {self.unit} {self.seq} {self.state}, {len(self.nodes)} records>"

    def _view(self) -> View:
        """The event, and what was asked, decided or went wrong because of it; `journal` has every record."""
        begun_ns = self.nodes[0]["time_ns"]
        rows: list[tuple[Cell, ...]] = []
        for node in self.nodes:
            if node["depth"] and node["kind"] in _BOOKKEEPING and node["state"] in (None, "ok", "done"):
                continue
            says = _DIGEST.sub(r"\1", f"{node['kind']} {node['says']}".strip())
            where = node["seq"] if node["unit"] == self.unit else f"{node['unit']} {node['seq']}"
            state = ": ".join(filter(None, (node["state"], node["why"])))
            after = (node["time_ns"] - begun_ns) // 1_000_000
            rows.append((where, says, node.get("arguments_json"), after, state))
        table = Table(("record", "what", "arguments", "after ms", "state"), rows)
        return View(f"Trace: {self.state}", self.failure, [("unit", self.unit)], [table])


def record_at(backend: Backend, unit: str, seq: int) -> TraceRecord:
    """Returns record `seq` of a unit. Raises NotFound, InvalidValue (no such unit name)."""
    name = str(Unit.parse(unit))
    found = next(map(TraceRecord.of, backend.read.records(name, seq, 1)), None)
    if found is None or found.unit_seq != seq:
        raise NotFound(f"There is no record {seq} of {name}.", code="no_record")
    return found


def records_of_hash(backend: Backend, prefix: str) -> list[TraceRecord]:
    """Returns the records that a hash or its beginning names, newest first: the record itself, or each event with this
    hash. Raises NotFound; InvalidValue (`bad_hash`) for a beginning that is too short or names several."""
    digits = prefix.removeprefix("sha256:").lower()
    if len(digits) < SHORTEST_HASH:
        raise InvalidValue(f"Give at least {SHORTEST_HASH} characters of the hash.", code="bad_hash")
    found: dict[str, list[TraceRecord]] = {}
    for record in map(TraceRecord.of, Journal(backend).views()):
        for name in (record.hash, (record.event_hash or "").removeprefix("sha256:")):
            if name.startswith(digits):
                found.setdefault(name, []).append(record)
    if not found:
        raise NotFound(
            f"No event and no record has the hash {prefix}; `demiurge journal tail --json` shows them.",
            code="no_record",
        )
    if len(found) > 1:
        raise InvalidValue(f"{len(found)} hashes begin with {digits}; say more of it.", code="bad_hash")
    return next(iter(found.values()))[::-1]


def records_of_chat(backend: Backend, chat_id: str, count: int | None = None) -> list[TraceRecord]:
    """Returns the last `count` events that came in for a chat, newest first; all of them for None. Reads no more
    records than it has to. Raises NotFound."""
    unit = str(Unit(CHAT, chat_id))
    end = next((head.next_seq for head in backend.read.heads(unit, 1) if head.unit == unit), 0)
    found: list[TraceRecord] = []
    while end > 0 and (count is None or len(found) < count):
        start = max(0, end - PAGE)
        page = map(TraceRecord.of, backend.read.records(unit, start, end - start))
        found += [record for record in page if record.kind == "event" and record.cause is None][::-1]
        end = start
    if not found:
        raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="chat_unknown")
    return found[:count]


async def trace_trees(backend: Backend, roots: Sequence[TraceRecord]) -> list[TraceTree]:
    """Returns the trees of these records, in the same order. Reads the journal once, from the oldest of them on."""
    found = await asyncio.to_thread(_lineages, backend, roots)
    return [await _tree(backend, records) for records in found]


def _lineages(backend: Backend, roots: Sequence[TraceRecord]) -> list[list[TraceRecord]]:
    if not roots:
        return []
    later = list(map(TraceRecord.of, Journal(backend).views(from_seq=min(root.position for root in roots))))
    return [
        consequences((record for record in later if record.position >= root.position), root.place) for root in roots
    ]


async def _tree(backend: Backend, records: Sequence[TraceRecord]) -> TraceTree:
    lines = trace(records)
    root, ended = records[0], outcome(lines)
    refused = await _refused(backend, records)
    state, why, sentence = ended.state, "", ""
    if ended.failed:
        first = ended.failed[0]
        what, why = f"{first.record.kind} {first.says}".strip(), first.why
        sentence = f"Failed: {what} #{first.record.unit} {first.record.unit_seq}: {why}"
    elif refused is not None:
        state = "failed" if state == "done" else state
        why = ": ".join(filter(None, refused))
        sentence = f"Failed: {root.kind} #{root.unit} {root.unit_seq}: {why}"
    nodes = await asyncio.to_thread(lambda: list(_nodes(backend, lines)))
    nodes[0]["state"] = nodes[0]["state"] or state
    return TraceTree(root.unit, root.unit_seq, root.event_hash, state, why or None, sentence, nodes)


async def _refused(backend: Backend, records: Sequence[TraceRecord]) -> Failed | None:
    """Returns the app's refusal of an event that it accepted without effect."""
    if records[0].kind == "event":
        with suppress(DemiurgeError):  # without the state, the records are shown all the same
            return await failure_in(backend, records)
    return None


def _nodes(backend: Backend, lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    intents = [line.record for line in lines if line.record.kind == "intent"]
    begun = backend.read.attempts([intent.body["id"].hex() for intent in intents])
    caused: dict[tuple[str, int], list[TraceRecord]] = {}
    for line in lines:
        if isinstance(line.record.cause, int):
            caused.setdefault((line.record.unit, line.record.cause), []).append(line.record)
    blobs = BlobReader(backend, [_call_ref(line.record) for line in lines])
    results = _results(backend, intents, caused)
    for line in lines:
        record = line.record
        node: dict[str, Any] = {
            "unit": record.unit,
            "seq": record.unit_seq,
            "position": record.position,
            "kind": record.kind,
            "hash": record.hash,
            "cause": record.cause if not isinstance(record.cause, Mapping) else dict(record.cause),
            "depth": line.depth,
            "is_last": line.is_last,
            "time_ns": record.time_ns,
            "says": line.says,
            "state": line.state or None,
            "why": line.why or None,
            "by": line.by or None,
        }
        if record.kind == "intent":
            node["phases"] = _phases(line, caused.get(record.place, []), begun.get(record.body["id"].hex()))
        decided = record.body.get("admitted", {}) if record.kind == "intent" else record.body
        if record.kind in ("intent", "decision") and decided.get("tainted"):
            node["tainted"] = list(decided["tainted"])
        if record.kind == "approval" and isinstance(record.body.get("reason"), str):
            node["reason"] = record.body["reason"]
        yield node | _arguments(blobs, record) | results.get(record.place, {})


def _phases(line: Line, consequences: Sequence[TraceRecord], begun_ns: int | None) -> list[dict[str, Any]]:
    """Returns the phases of an intent, of which a wall clock that was set back makes none negative."""
    record, phases = line.record, list[dict[str, Any]]()
    since = record.time_ns
    end = next((each.time_ns for each in consequences if each.kind in ("receipt", "decision")), None)
    approval = next((each for each in consequences if each.kind == "approval"), None)
    decided = approval.time_ns if approval is not None else None

    def add(phase: str, to_ns: int | None) -> None:
        nonlocal since
        to_ns = None if to_ns is None else max(since, to_ns)
        phases.append({"phase": phase, "from_ns": since, "to_ns": to_ns})
        since = since if to_ns is None else to_ns

    if line.state == "denied":
        return phases
    if "approval" in record.body and "approved" not in record.body:
        add("person", decided if decided is not None else end)
        if approval is None or approval.body["verdict"] in ("reject", "expire"):
            return phases
    if line.state == "running" or end is not None:
        if begun_ns is None:
            add("queued", end)
        else:
            add("queued", begun_ns)
            add("running", end)
    return phases


def _call_ref(record: TraceRecord) -> str | None:
    """Returns the address of the call that a record proposes; None for a record without a call."""
    if record.kind not in ("intent", "decision") or record.body.get("kind") != TOOL:
        return None
    ref: str | None = (record.body.get("params") or {}).get("call_ref")
    return ref


def _arguments(blobs: BlobReader, record: TraceRecord) -> dict[str, Any]:
    """Returns the fields of a proposed tool call's arguments; none for a record without a call."""
    ref = _call_ref(record)
    if ref is None:
        return {}
    try:
        call = canonical_json.parse_object(blobs.get(ref))
    except NotFound as error:
        problem = "you may not see them" if record.redacted else error.message
    except DemiurgeError as error:
        problem = error.message
    else:
        return {"arguments_json": call["arguments_json"]}
    return {"arguments_json": None, "arguments_problem": problem}


def _results(
    backend: Backend, intents: Sequence[TraceRecord], caused: Mapping[tuple[str, int], Sequence[TraceRecord]]
) -> dict[tuple[str, int], dict[str, Any]]:
    """Returns the fields of the results of calls by the place of the intent; none of a call that has not ended. Only a
    caller who sees records is given more than the address of the redacted view, and no blob is read for another."""
    receipts = {
        intent.place: record
        for intent in intents
        if _call_ref(intent) is not None
        for record in caused.get(intent.place, ())
        if told_ref(record.kind, record.body) is not None
    }
    found = {place: {"view_ref": receipt.body["payload"].get("view_ref")} for place, receipt in receipts.items()}
    if not sees_records(backend.caller):
        return found
    refs = {place: str(told_ref(receipt.kind, receipt.body)) for place, receipt in receipts.items()}
    blobs, bodies = BlobReader(backend, refs.values()), dict[tuple[str, int], MessageBody]()
    for place, ref in refs.items():
        with suppress(DemiurgeError):  # the rest of the tree is shown all the same
            bodies[place] = MessageBody.decode(canonical_json.parse_object(blobs.get(ref)))
    values = BlobReader(backend, [body.value_ref for body in bodies.values()])
    for place, body in bodies.items():
        found[place] |= {**told(body, values.get), "message_ref": refs[place], "value_ref": body.value_ref}
    return found


def _shown(value: Any) -> Any:
    """Returns a value of a view without what is withheld."""
    if isinstance(value, Mapping):
        return {name: _shown(held) for name, held in value.items() if not _is_withheld(held)}
    if isinstance(value, list | tuple):
        return [_shown(held) for held in value if not _is_withheld(held)]
    return value


def _is_withheld(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"$withheld"}
