"""Journal records and their hash chain.

A record's hash covers all that comes before it, and `prev` is the hash of the unit's previous record, so a changed,
dropped or re-ordered record shows. The bytes that are hashed are the bytes that are stored: verifying needs no
re-encoding. Blobs that a record exposes are named in `refs`, so that verifying, access checks and garbage collection
read one field and know no schema.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demiurge.errors import Damaged, InvalidValue
from demiurge.stores.rows import GENESIS
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_digest, ref_from_digest

__all__ = ["GENESIS", "Cause", "Record", "Stamp", "decode_record", "seal_record"]

Cause = int | Mapping[str, Any] | None
"""The sequence number of the causing record of this unit; or `{unit, seq, index}` of an event that another unit sent;
or None for what came from outside the world."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """All that a step may know of the outside: wall time, entropy, who acted, and the manifest in force.

    Derived records carry the time alone; the rest is that of the ingress that caused them.
    """

    time_ns: int
    entropy: bytes = b""
    actor: str = ""
    manifest: Ref | None = None

    def to_node(self) -> dict[str, Any]:
        if self.manifest is None:
            return {"t": self.time_ns}
        return {"t": self.time_ns, "e": self.entropy, "a": self.actor, "m": ref_digest(self.manifest)}

    @classmethod
    def from_node(cls, node: Mapping[str, Any]) -> Stamp:
        if "m" not in node:
            return cls(node["t"])
        return cls(node["t"], node["e"], node["a"], ref_from_digest(node["m"]))


@dataclass(frozen=True, slots=True)
class Record:
    """One link of a unit's chain (architecture.md 3). `data` is the canonical CBOR of everything but the hash."""

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
        """True when the record came in from outside the kernel; false when `advance` derived it."""
        return self.stamp.manifest is not None


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
    """Encode and hash one record. `body` must hold only what canonical CBOR can carry."""
    node: dict[str, Any] = {
        "unit": unit,
        "seq": unit_seq,
        "kind": kind,
        "cause": cause,
        "stamp": stamp.to_node(),
        "body": body,
        "prev": prev,
    }
    unique = tuple(dict.fromkeys(refs))
    if unique:
        node["refs"] = [ref_digest(ref) for ref in unique]
    data = cbor.encode(node)
    return Record(unit, unit_seq, kind, cause, stamp, body, prev, hashlib.sha256(data).digest(), data, unique)


def decode_record(data: bytes, *, position: int | None = None) -> Record:
    """Read a stored record back. Raises Damaged when the bytes are not a record."""
    try:
        node = cbor.decode(data)
        return Record(
            node["unit"],
            node["seq"],
            node["kind"],
            node["cause"],
            Stamp.from_node(node["stamp"]),
            node["body"],
            node["prev"],
            hashlib.sha256(data).digest(),
            data,
            tuple(ref_from_digest(digest) for digest in node.get("refs", ())),
            position,
        )
    except (InvalidValue, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"record at position {position} can't be decoded") from error
