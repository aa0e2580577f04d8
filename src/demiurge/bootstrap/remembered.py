"""Which tools and which policy a user runs a world with, so that the next command need not be told again.

It is kept in the user's config folder, never in the world: a world that was copied, shared or found names no code that
is run here. A record is for one world in one place: the world's folder has a random mark, and the record its digest, so
another world that takes the place has none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from demiurge.bootstrap.secrets import config_folder
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.secret_file import locked_folder, read_closed, write_closed
from demiurge.stores.secret_key import made_key, read_key
from demiurge.values import canonical_json
from demiurge.values.clock import SystemEntropy

__all__ = ["Remembered", "forget", "recall", "remember"]

MARK = "mark.key"
LONGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class Remembered:
    """`tools`: dotted module names, looked for in `folder`; `policy`: an absolute path. Nothing of it is code."""

    folder: str
    tools: tuple[str, ...] = ()
    policy: str | None = None


def recall(environment: Mapping[str, str], world: Path) -> Remembered | None:
    """What was remembered of the world in this folder; None: nothing, or not of this one. Raises Unavailable for a
    record that others could have changed, or that is none."""
    place = _place(environment, world)
    data = read_closed(place, LONGEST) if place is not None else None
    if place is None or data is None:
        return None
    try:
        found = canonical_json.parse_object(data)
        kept = Remembered(found["folder"], tuple(found["tools"]), found["policy"])
        mark = found["mark"]
    except (DemiurgeError, LookupError, TypeError) as error:
        raise Unavailable(f"{place} is damaged: remove it, and name the tools with --tools.") from error
    return kept if mark == _digest(world) else None


def remember(environment: Mapping[str, str], world: Path, given: Remembered) -> bool:
    """Keep it, in place of what was; False where no home folder is known. Raises Unavailable."""
    place = _place(environment, world)
    if place is None:
        return False
    made_key(world / MARK, SystemEntropy())
    node = {**asdict(given), "tools": list(given.tools), "mark": _digest(world), "world": str(_resolved(world))}
    with locked_folder(place.parent):
        write_closed(place, canonical_json.encode(node))
    return True


def forget(environment: Mapping[str, str], world: Path) -> None:
    """Remember nothing of the world in this folder."""
    place = _place(environment, world)
    if place is not None:
        place.unlink(missing_ok=True)


def _place(environment: Mapping[str, str], world: Path) -> Path | None:
    config = config_folder(environment)
    if config is None:
        return None
    return config / "worlds" / f"{hashlib.sha256(str(_resolved(world)).encode()).hexdigest()[:32]}.json"


def _digest(world: Path) -> str | None:
    mark = read_key(world / MARK)
    return hashlib.sha256(mark.reveal().encode()).hexdigest() if mark is not None else None


def _resolved(world: Path) -> Path:
    return world.resolve()
