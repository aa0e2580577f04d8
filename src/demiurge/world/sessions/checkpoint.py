"""Checkpoints: a session's whole state as blobs, so that opening a world reads a unit's last receipts and not all of
them.

Long slices are written in their chunks, each a blob of its own, and a chunk that was written before is named again, so
a checkpoint costs as much as is new since the last one. A checkpoint saves time and holds nothing that the receipts
before it do not hold, so one of other types or other session reducers is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic_core import from_json, to_json

from demiurge.errors import InvalidValue
from demiurge.sessions.codec import EventCodec
from demiurge.sessions.history import History
from demiurge.sessions.session import Session
from demiurge.sessions.snapshot import SessionSnapshot
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.invoked import ToolInvoked
from demiurge.tools.result import ToolResult
from demiurge.values.refs import Ref, parse_ref, ref_of

__all__ = ["Checkpoint", "Pieces", "invoked_event", "is_checkpoint_of", "read_checkpoint", "write_checkpoint"]

FORMAT = "session-checkpoint/1"
LOG = "ToolInvoked"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Pieces = dict[str, list[tuple[tuple[Any, ...], Ref]]]
"""The stored chunks of each slice with their addresses, oldest first."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`data` is the blob that a receipt names. `blobs` are new blobs; `kept` are the addresses of older blobs that it
    needs."""

    data: bytes
    blobs: list[bytes]
    kept: list[Ref]
    pieces: Pieces = field(repr=False)


def write_checkpoint(session: Session, codec: EventCodec, next_seq: int, stored: Pieces) -> Checkpoint:
    """Returns a checkpoint of `session` as of the records before `next_seq`. Raises InvalidValue for a value that
    cannot be written."""
    slices: dict[str, Any] = {}
    blobs: list[bytes] = []
    kept: list[Ref] = []
    pieces: Pieces = {}
    for kind, history in session.snapshot(include_all=True).held.items():
        name = LOG if kind is ToolInvoked else codec.name(kind)
        dump = _log_node if kind is ToolInvoked else codec.dump
        *full, tail = history.chunks()
        known = stored.get(name, [])
        now = pieces[name] = []
        for index, chunk in enumerate(full):
            if index < len(known) and known[index][0] is chunk:
                now.append(known[index])
                kept.append(known[index][1])
            else:
                blobs.append(to_json([dump(value) for value in chunk]))
                now.append((chunk, ref_of(blobs[-1])))
        slices[name] = {"pieces": [ref for _, ref in now], "tail": [dump(value) for value in tail]}
    node = {"format": FORMAT, "codec": codec.digest, "next_seq": next_seq, "slices": slices}
    return Checkpoint(to_json(node), blobs, kept, pieces)


def is_checkpoint_of(codec: EventCodec, data: bytes) -> bool:
    """Returns whether the checkpoint was written with the types and session reducers of `codec`. Raises InvalidValue if
    `data` is not a checkpoint."""
    node = _parsed(data)
    if not isinstance(node, Mapping) or node.get("format") != FORMAT:
        raise InvalidValue("this blob is not a checkpoint of a session")
    return bool(node["codec"] == codec.digest)


def read_checkpoint(
    data: bytes, codec: EventCodec, get_blob: Callable[[Ref], bytes], session: Session
) -> tuple[int, Pieces] | None:
    """Restores `session` from a checkpoint. Returns the number of the first record that is not in it, and its stored
    chunks; None if it was written with other types or session reducers.

    Raises InvalidValue if `data` is not a checkpoint, NotFound and Damaged for its blobs.
    """
    if not is_checkpoint_of(codec, data):
        return None
    node = _parsed(data)
    held: dict[type[Any], History[Any]] = {}
    pieces: Pieces = {}
    for name, written in node["slices"].items():
        kind: type[Any] | None = ToolInvoked if name == LOG else codec.find(name)
        if kind is None:
            raise InvalidValue("the checkpoint has a slice of an unknown type")
        load = _log_entry if kind is ToolInvoked else _loader(codec, kind)
        refs = [parse_ref(ref) for ref in written["pieces"]]
        chunks = [tuple(map(load, _parsed(get_blob(ref)))) for ref in refs]
        pieces[name] = list(zip(chunks, refs, strict=True))
        held[kind] = History.of([*chunks, tuple(map(load, written["tail"]))])
    session.restore(SessionSnapshot(held, session.session_id, session.created_at), preserve_logs=False)
    return node["next_seq"], pieces


def invoked_event(
    intent: bytes, name: str, call_id: str, time_ns: int, session_id: UUID | str, code: str | None, message: str
) -> ToolInvoked:
    """Returns a session's event for a call, failed or not, with what its receipt says in public. It holds neither
    parameters nor value; `code` is None for a call that succeeded."""
    known = None if code is None else _code(code)
    return ToolInvoked(
        prompt_name="",
        adapter="",
        name=name,
        params=None,
        result=ToolResult(message, None, success=known is None),
        session_id=session_id,
        created_at=_EPOCH + timedelta(microseconds=time_ns // 1000),
        call_id=call_id,
        event_id=UUID(bytes=intent[:16], version=4),
        error_code=known,
    )


def _code(code: str) -> ToolErrorCode:
    try:
        return ToolErrorCode(code)
    except ValueError:  # a code of the world's own, such as `gave_up`
        return ToolErrorCode.EXECUTION


def _log_node(event: ToolInvoked) -> list[Any]:
    micros = (event.created_at - _EPOCH) // timedelta(microseconds=1)
    code = None if event.error_code is None else event.error_code.value
    identity = [event.event_id.hex, event.name, event.call_id, micros, event.session_id]
    return [*identity, code, event.result.message]


def _log_entry(node: list[Any]) -> ToolInvoked:
    event_id, name, call_id, micros, session_id, code, message = node
    return invoked_event(bytes.fromhex(event_id), name, call_id, micros * 1000, session_id, code, message)


def _loader(codec: EventCodec, kind: type[Any]) -> Callable[[Any], Any]:
    return lambda data: codec.load(kind, data)


def _parsed(data: bytes) -> Any:
    try:
        return from_json(data)
    except ValueError as error:
        raise InvalidValue("this blob is not JSON") from error
