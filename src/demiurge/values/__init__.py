"""Values and how they are named: canonical CBOR and JSON, refs and digests, types, long lists, clock, ids.

Every package above stores, hashes and compares values by the rules of this one. So it is pure: it does no I/O but in
`clock`, and imports only `demiurge.errors`, cbor2, pydantic-core and rfc8785. `cbor` and `canonical_json` are used as
modules. Schemas, types and long lists are imported lazily, because running a tool needs none of them.
"""

from typing import TYPE_CHECKING

from demiurge.lazy_imports import lazy_attributes
from demiurge.values import canonical_json, cbor
from demiurge.values.clock import (
    Clock,
    Entropy,
    FixedClock,
    SeededEntropy,
    SystemClock,
    SystemEntropy,
    new_id,
)
from demiurge.values.refs import Ref, parse_ref, ref_digest, ref_from_digest, ref_of

if TYPE_CHECKING:
    from demiurge.values.schema import Schemas, Validator
    from demiurge.values.type_expr import TypeExpr
    from demiurge.values.vector import Vector

__all__ = [
    "Clock",
    "Entropy",
    "FixedClock",
    "Ref",
    "Schemas",
    "SeededEntropy",
    "SystemClock",
    "SystemEntropy",
    "TypeExpr",
    "Validator",
    "Vector",
    "canonical_json",
    "cbor",
    "new_id",
    "parse_ref",
    "ref_digest",
    "ref_from_digest",
    "ref_of",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "demiurge.values.schema": ("Schemas", "Validator"),
        "demiurge.values.type_expr": ("TypeExpr",),
        "demiurge.values.vector": ("Vector",),
    },
)
