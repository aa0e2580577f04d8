"""Refs: a ref names bytes by their SHA-256, so equal bytes have one name and a name cannot lie.

Knowing a ref grants nothing; it only identifies bytes.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NewType

from demiurge.errors import InvalidValue

Ref = NewType("Ref", str)
"""`sha256:` and 64 lower-case hexadecimal digits."""

_FORM = re.compile(r"sha256:[0-9a-f]{64}")


def ref_of(data: bytes) -> Ref:
    """Returns the ref of a blob: the SHA-256 of its raw bytes."""
    return Ref("sha256:" + sha256(data).hexdigest())


def parse_ref(text: object) -> Ref:
    """Returns `text` as a Ref. Raises InvalidValue (`invalid_ref`) unless it has exactly the form of one."""
    if isinstance(text, str) and _FORM.fullmatch(text):
        return Ref(str(text))
    raise InvalidValue("A ref is sha256: and 64 lower-case hexadecimal digits.", code="invalid_ref")


def ref_digest(ref: Ref) -> bytes:
    """Returns the 32 bytes that `ref` spells out."""
    return bytes.fromhex(ref[7:])


def ref_from_digest(digest: bytes) -> Ref:
    """Returns the ref of a 32-byte SHA-256 digest. Raises InvalidValue (`invalid_ref`) for another length."""
    if len(digest) != 32:
        raise InvalidValue("A SHA-256 digest has 32 bytes.", code="invalid_ref")
    return Ref("sha256:" + digest.hex())
