"""Journal records and their hash chain.

A record's hash covers everything before it, and `prev` is the hash of the unit's previous record, so a changed, dropped
or re-ordered record is noticed. The stored bytes are the hashed bytes: verifying needs no re-encoding. `refs` names the
blobs that a record exposes, so that verifying, access checks and garbage collection read one field and need no schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from cbor2 import CBORDecodeError, loads

from demiurge.errors import Damaged, InvalidValue
from demiurge.stores.protocol import Row
from demiurge.stores.rows import GENESIS
from demiurge.tools.display import Verbatim, View, shown
from demiurge.values import cbor
from demiurge.values.caller import NOBODY, Caller
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref, ref_digest, ref_from_digest

__all__ = [
    "GENESIS",
    "Cause",
    "Record",
    "Stamp",
    "decode_record",
    "decode_row",
    "may_be_kind",
    "read_row",
    "seal_record",
]

Cause = int | Mapping[str, Any] | None
"""The cause of a record: the sequence number of an earlier record of this unit; `{unit, seq, index}` for an event that
another unit sent; None for anything from outside the world."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Everything that a step may know of the outside: wall time, entropy, the caller, and the manifest in force.

    Derived records carry the time alone; the rest is in the ingress that caused them.
    """

    time_ns: int
    entropy: bytes = b""
    caller: Caller = NOBODY
    manifest: Ref | None = None

    @property
    def actor(self) -> str:
        return self.caller.actor

    @classmethod
    def from_node(cls, node: Mapping[str, Any]) -> Stamp:
        if "m" not in node:
            return _Stamp(node["t"])
        return _Stamp(node["t"], node["e"], _caller(node["a"]), ref_from_digest(node["m"]))


_Stamp = fast_constructor(Stamp)


def _caller(node: str | Mapping[str, Any]) -> Caller:
    return _known_actor(node) if isinstance(node, str) else Caller.from_node(node)


_known_actor = lru_cache(256)(Caller)


@shown
@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """One link of a unit's chain. `data` is the canonical CBOR of everything but the hash."""

    unit: str
    unit_seq: int
    kind: str
    cause: Cause
    stamp: Stamp
    body: Mapping[str, Any]
    prev: bytes
    hash: bytes
    data: bytes
    refs: tuple[Ref, ...] = ()
    position: int | None = None

    @property
    def is_ingress(self) -> bool:
        """True if the record came in from outside the kernel; false if `advance` derived it."""
        return self.stamp.manifest is not None

    def __repr__(self) -> str:
        return f"<Record {self.unit} {self.unit_seq} {self.kind} sha256:{self.hash.hex()[:12]}>"

    def _view(self) -> View:
        when = datetime.fromtimestamp(self.stamp.time_ns / 1e9, UTC).isoformat(timespec="seconds")
        facts: dict[str, str | int | None] = {
            "unit": self.unit,
            "number": self.unit_seq,
            "position": self.position,
            "time": when,
            "caller": self.stamp.actor if self.is_ingress else None,
            "cause": str(self.cause) if self.cause is not None else None,
            "hash": f"sha256:{self.hash.hex()}",
        }
        body = json.dumps(self.body, ensure_ascii=False, indent=2, default=_shown_bytes)
        return View(self.kind, facts=[fact for fact in facts.items() if fact[1] is not None], parts=[Verbatim(body)])


def _shown_bytes(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


_Record = fast_constructor(Record)


def seal_record(
    unit: str,
    unit_seq: int,
    kind: str,
    cause: Cause,
    stamp: Stamp,
    body: Mapping[str, Any],
    prev: bytes,
    refs: Sequence[Ref] = (),
) -> Record:
    """Encodes and hashes one record. `body` may hold only plain data that canonical CBOR can encode."""
    unique = tuple(dict.fromkeys(refs)) if refs else ()
    data = _encoded(unit, unit_seq, kind, cause, stamp, body, prev, unique)
    return _Record(unit, unit_seq, kind, cause, stamp, body, prev, sha256(data).digest(), data, unique)


def decode_record(data: bytes, *, position: int | None = None) -> Record:
    """Reads a stored record. Raises Damaged if the bytes are not a record in canonical form."""
    record = _read(data, sha256(data).digest(), position)
    try:
        again = _encoded(
            record.unit, record.unit_seq, record.kind, record.cause, record.stamp, record.body, record.prev, record.refs
        )
    except (InvalidValue, TypeError, ValueError, AttributeError) as error:
        raise _undecodable(position) from error
    if again != data:
        raise _undecodable(position)
    return record


def decode_row(row: Row) -> Record:
    """Reads a stored row as a record. Raises Damaged if its bytes name another place than the row's."""
    return _in_place(decode_record(row.data, position=row.position), row)


def read_row(row: Row) -> Record:
    """Reads a row without checking that its bytes are canonical: for callers that encode the record again and compare.
    Raises Damaged."""
    return _in_place(_read(row.data, row.hash, row.position), row)


def may_be_kind(data: bytes, kind: str) -> bool:
    """Returns False if the bytes of a record cannot be one of this kind, without decoding them. True is no proof: a
    text in the record's body may look alike."""
    return b"".join((b"\x64kind", _known_text(kind), b"\x64prev")) in data


def _in_place(record: Record, row: Row) -> Record:
    if record.unit_seq != row.unit_seq or record.unit != row.unit or record.kind != row.kind:
        raise Damaged(f"record {row.unit} {row.unit_seq} holds the bytes of {record.unit} {record.unit_seq}")
    if record.is_ingress != (row.ingress_id is not None):
        raise Damaged(f"record {row.unit} {row.unit_seq} and its row disagree on whether it came from outside")
    return record


def _read(data: bytes, digest: bytes, position: int | None) -> Record:
    """Returns the record in bytes whose hash is `digest`. Does not check that the bytes are canonical."""
    try:
        node = loads(data[3:], max_depth=cbor.MAX_DEPTH, allow_indefinite=False, allow_duplicate_keys=False)
        stamp = node["stamp"]
        refs = node.get("refs")
        return _Record(
            node["unit"],
            node["seq"],
            node["kind"],
            node["cause"],
            Stamp.from_node(stamp),
            node["body"],
            node["prev"],
            digest,
            data,
            tuple(map(ref_from_digest, refs)) if refs else (),
            position,
        )
    except (CBORDecodeError, InvalidValue, KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _undecodable(position) from error


def _encoded(
    unit: str,
    unit_seq: int,
    kind: str,
    cause: Cause,
    stamp: Stamp,
    body: Mapping[str, Any],
    prev: bytes,
    refs: Sequence[Ref],
) -> bytes:
    """Returns the node `{seq, body, kind, prev, refs (if any), unit, cause, stamp}`, joined from encoded parts: its
    keys, in canonical order, are always the same."""
    return b"".join(
        (
            _WITH_REFS if refs else _WITHOUT_REFS,
            cbor.head(0, unit_seq),
            b"\x64body",
            _body(body),
            b"\x64kind",
            _known_text(kind),
            b"\x64prev\x58\x20",
            prev,
            _refs(refs) if refs else b"",
            b"\x64unit",
            _known_text(unit),
            b"\x65cause",
            _cause(cause),
            b"\x65stamp",
            _stamp(stamp),
        )
    )


_WITHOUT_REFS = cbor.encode({})[:3] + b"\xa7\x63seq"
_WITH_REFS = cbor.encode({})[:3] + b"\xa8\x63seq"

_known_text = lru_cache(4096)(cbor.encode_item)


def _body(body: Mapping[str, Any]) -> bytes:
    digest = body["digest"] if len(body) == 1 and "digest" in body else None
    if type(digest) is bytes and len(digest) == 32:  # a step's: every second record of some units
        return b"\xa1\x66digest\x58\x20" + digest
    return cbor.encode_item([body])[1:]  # inside a list, as deep as in the record: the depth limit counts it


def _cause(cause: Cause) -> bytes:
    if cause is None:
        return b"\xf6"
    return cbor.head(0, cause) if type(cause) is int and cause >= 0 else cbor.encode_item(cause)


def _stamp(stamp: Stamp) -> bytes:
    time = cbor.encode_item(stamp.time_ns) if stamp.time_ns < 0 else cbor.head(0, stamp.time_ns)
    if stamp.manifest is None:
        return b"\xa1\x61t" + time
    caller, entropy = _known_caller(stamp.caller), cbor.head(2, len(stamp.entropy)) + stamp.entropy
    return b"".join((b"\xa4\x61a", caller, b"\x61e", entropy, _known_manifest(stamp.manifest), time))


@lru_cache(256)
def _known_caller(caller: Caller) -> bytes:
    return cbor.encode_item(caller.to_node())


@lru_cache(256)
def _known_manifest(ref: Ref) -> bytes:
    return b"\x61m\x58\x20" + ref_digest(ref) + b"\x61t"


def _refs(refs: Sequence[Ref]) -> bytes:
    """Returns the encoded refs: digests of 32 bytes, each behind its head `58 20`."""
    digests = bytes.fromhex("5820" + "5820".join([ref[7:] for ref in refs]))
    return b"\x64refs" + cbor.head(4, len(refs)) + digests


def _undecodable(position: int | None) -> Damaged:
    return Damaged(f"record at position {position} can't be decoded")
