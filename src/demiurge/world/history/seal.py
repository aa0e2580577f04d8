"""Seals: short texts to keep elsewhere, which show later that a journal was not rewritten, and proofs under them.

A seal is the number of records and the root of the Merkle tree over their hashes, in the order of their positions:
`SIZE-HEX`. A journal that only grew still has every seal it ever had, and finds each without being read; a journal that
was shortened, reordered or rewritten does not. A proof shows that one record is under a seal, to a reader who has
nothing but that seal.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

from demiurge.errors import Conflict, InvalidValue, NotFound
from demiurge.stores.merkle import leaf_hash, path_root
from demiurge.stores.protocol import Store
from demiurge.stores.tiles import Tiles
from demiurge.world.moment import MAX_POSITION

__all__ = ["Proof", "Seal", "prove", "sealed"]

_FORM: Final = re.compile(r"(0|[1-9][0-9]{0,18})-([0-9a-f]{64})")
_LONGEST: Final = 64


class Seal(NamedTuple):
    """A seal: `root` (32 bytes) covers the first `size` records."""

    size: int
    root: bytes

    def __str__(self) -> str:
        return f"{self.size}-{self.root.hex()}"

    @classmethod
    def parse(cls, text: str) -> Seal:
        """Parses the text that `str` gives. Raises InvalidValue (`invalid_seal`)."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise InvalidValue("A seal is a number, a - and 64 hexadecimal digits.", code="invalid_seal")
        return cls(int(found[1]), bytes.fromhex(found[2]))


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof that the record `data` (canonical CBOR, as `journal export` writes it) is at `position` under `seal`."""

    position: int
    seal: Seal
    path: tuple[bytes, ...]
    data: bytes

    def holds(self) -> bool:
        """Returns whether the proof is correct."""
        leaf = leaf_hash(sha256(self.data).digest())
        return path_root(leaf, self.position - 1, self.seal.size, self.path) == self.seal.root

    def to_json(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "seal": str(self.seal),
            "path": [step.hex() for step in self.path],
            "cbor": base64.b64encode(self.data).decode(),
        }

    @classmethod
    def from_json(cls, node: Mapping[str, Any]) -> Proof:
        """Reads the form that `to_json` gives. Raises InvalidValue (`invalid_proof`)."""
        try:
            position, path = node["position"], tuple(bytes.fromhex(step) for step in node["path"])
            if type(position) is not int or len(path) > _LONGEST:
                raise ValueError
            return cls(position, Seal.parse(node["seal"]), path, base64.b64decode(node["cbor"], validate=True))
        except (LookupError, TypeError, ValueError, binascii.Error) as error:
            raise InvalidValue("This is not a proof as `journal prove` prints it.", code="invalid_proof") from error


def sealed(store: Store, size: int | None = None) -> Seal:
    """Returns the seal of the first `size` records, or of all. Raises NotFound, Damaged, Unavailable.

    The cost grows with the records since the last call, and little else. Nothing is checked: `verify` does that.
    """
    if size is None:
        size = store.length()
    elif size > MAX_POSITION:
        raise NotFound(f"The journal has no position {size}; its last one is {store.length()}.", code="no_position")
    return Seal(size, Tiles(store).root(size))


def prove(store: Store, position: int, seal: Seal | None = None) -> Proof:
    """Returns a proof that the record at `position` is under `seal`, or under the world's newest seal.

    Raises NotFound (no such record, or not under that seal), Conflict (`seal`: this world never had it), Damaged.
    """
    under = seal if seal is not None else sealed(store)
    if not 0 < position <= under.size:
        raise NotFound(f"There is no record at position {position} under that seal.", code="unknown_position")
    try:
        own = seal is None or sealed(store, under.size) == seal
    except NotFound:
        own = False
    if not own:
        raise Conflict(f"This world never had the seal {seal}.", code="seal")
    row = next(store.read_all(position, 1))
    return Proof(position, under, tuple(Tiles(store).path(position - 1, under.size)), row.data)
