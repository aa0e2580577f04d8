"""`blob.put` and `blob.get`: their parameters, and which of them a grant of type `blob` covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.tools.capabilities import BlobAccess
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, Parameter, among_ops
from demiurge.world.effect_kinds.types import BYTES, HASH, NAT, TEXT, option, record, ref, set_of, variant

__all__ = ["BLOB", "INLINE_BYTES"]

INLINE_BYTES = 64 * 1024
"""The most bytes that an effect's parameters or its receipt hold themselves; larger values are passed by address."""

_EVERY_ORIGIN = ("plan", "reducer", "tool")


def _size(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    content = params.get("content")
    size = len(content["$value"]) if content is not None and content["$tag"] == "bytes" else 0
    limit = grant.get("max_bytes")
    return "too_large" if size > INLINE_BYTES or (limit is not None and size > limit) else None


BLOB: Final = EffectFamily(
    cap_type="blob",
    kinds=(
        EffectKind(
            name="blob.put",
            params=record(blob_ref=option(TEXT), content=ref("sys/BytesOrRef@1")),
            receipt=record(blob_ref=HASH, size=NAT),
            origins=_EVERY_ORIGIN,
            typed_receipt="sys/BlobPutResult@1",
            notes={"content": "`bytes` or `ref`"},
        ),
        EffectKind(
            name="blob.get",
            params=record(blob_ref=TEXT, range=option(ref("sys/BlobRange@1"))),
            receipt=record(blob_ref=HASH, size=NAT, bytes=BYTES),
            origins=_EVERY_ORIGIN,
            typed_receipt="sys/BlobGetResult@1",
        ),
    ),
    schemas={
        "sys/BytesOrRef@1": variant({"bytes": BYTES, "ref": TEXT}),
        "sys/BlobRange@1": record(start=NAT, end=NAT),
    },
    grant=record(ops=option(set_of(TEXT)), max_bytes=option(NAT)),
    grant_notes={"ops": "`put` `get`"},
    compared={"content": Parameter(ref("sys/BytesOrRef@1"), absent=True, null=True)},
    checks=(among_ops, _size),
    adapter="demiurge.world.effects.blob:BlobEffects",
    restart="performed again, with the same key",
    capability=Capability(
        BlobAccess, "demiurge.world.effects.blob:WorldBlobs", "`put(data)`, `get(ref)`, in as many parts as it takes"
    ),
)
