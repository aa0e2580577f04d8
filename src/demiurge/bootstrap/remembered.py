"""What a user runs a world with: tools, policy, where its chats ask their models, and a manifest of the world's own, so
that it need not be said again.

It is kept in the user's config folder, never in the world: a world that was copied, shared or found names no code that
is run here, and has no manifest that counts here. A record is for one world in one place: the world's folder has a
random mark, and the record its digest, so another world that takes the place has none. No key is ever in it.

A record whose mark is not that of the world, though there is a world in its place, is refused and not passed over: the
policy in it may be a strict one, and the mark may be what is lost. Who makes a new world has the record of the old one
removed.

A record is read, changed and written under one lock, so nothing that threads or processes note at once is lost. One
whose world is gone is dropped when another is written, if it holds nothing but digests of code: the world may be on a
disk that is away, and what somebody decided of it is not to be decided again.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from demiurge.bootstrap.chat_address import ModelAddress
from demiurge.bootstrap.secrets import config_folder
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.errors import OR_ACCEPT
from demiurge.stores.secret_file import locked_folder, read_closed, write_closed
from demiurge.stores.secret_key import made_key, read_key
from demiurge.values import canonical_json
from demiurge.values.clock import SystemEntropy

__all__ = ["Remembered", "disown", "forget", "recall", "remember"]

MARK = "mark.key"
_JOURNAL = "journal.db"
LONGEST = 256 * 1024
LOOKED_AT = 32
"""Most records of other worlds that a write looks at."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """`tools`: dotted module names, looked for in `folders`; `policy`: an absolute path; `manifest`: the hash of the
    world's own definitions; `addresses`: see `chat_address`; `approved`: see `approved.Approved`; `code`: see
    `own_code.OwnCode`. Nothing of it is code."""

    folders: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    policy: str | None = None
    manifest: str | None = None
    addresses: tuple[ModelAddress, ...] = ()
    approved: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


def recall(environment: Mapping[str, str], world: Path) -> Remembered | None:
    """What was remembered of the world in this folder; None: nothing, or there is no world. Raises Unavailable for a
    record that others could have changed, or that is none; `mark_changed` for one of another mark than the world's."""
    place = _place(environment, world)
    record = _read(place) if place is not None else None
    if record is None or record.mark == _digest(world):
        return record.kept if record is not None else None
    if not os.path.exists(world / _JOURNAL):
        return None
    raise Unavailable(
        f"{world / MARK} is not the one for which {place} remembers tools, policy and approvals. {OR_ACCEPT}",
        code="mark_changed",
    )


def disown(environment: Mapping[str, str], world: Path) -> str | None:
    """Forget what is remembered of another world in this folder, or of this one before its mark was lost: a sentence
    about it; None where there is nothing of that kind. Raises Unavailable."""
    place = _place(environment, world)
    if place is None or not place.exists():
        return None
    with locked_folder(place.parent):
        with suppress(Unavailable):
            record = _read(place)
            if record is None or record.mark == _digest(world):
                return None
        place.unlink(missing_ok=True)
    if (world / MARK).exists():
        with suppress(Unavailable):
            read_key(world / MARK)
            return f"{world / MARK} was not the one for which {place} remembered tools, policy and approvals."
        (world / MARK).unlink()
    return f"{world / MARK}, for which {place} remembered tools, policy and approvals, was lost."


def remember(
    environment: Mapping[str, str], world: Path, change: Callable[[Remembered], Remembered]
) -> Remembered | None:
    """Keep what `change` makes of what is kept, and return it; None where no home folder is known. `change` is called
    while nobody else can write, so it must not wait. Raises Unavailable."""
    place = _place(environment, world)
    if place is None:
        return None
    with locked_folder(place.parent):
        kept = recall(environment, world) or Remembered()
        given = change(kept)
        if given != kept:
            made_key(world / MARK, SystemEntropy())
            _write(place, world, given)
            _drop_gone(place)
    return given


def forget(environment: Mapping[str, str], world: Path) -> None:
    """Remember no tools, no policy and no addresses of the world in this folder; with a record that can't be read,
    nothing. Raises Unavailable."""
    place = _place(environment, world)
    if place is None or not place.exists():
        return
    with locked_folder(place.parent):
        kept = None
        with suppress(Unavailable):
            kept = recall(environment, world)
        left = replace(kept or Remembered(), folders=(), tools=(), policy=None, addresses=())
        if left != Remembered():
            _write(place, world, left)
        else:
            place.unlink(missing_ok=True)


class _Record(NamedTuple):
    """`mark`: the digest of the world's; `world`: its folder when this was written."""

    kept: Remembered
    mark: str
    world: str


def _read(place: Path) -> _Record | None:
    data = read_closed(place, LONGEST)
    if data is None:
        return None
    try:
        found = canonical_json.parse_object(data)
        kept = Remembered(
            tuple(map(str, found.get("folders") or filter(None, (found["folder"],)))),
            tuple(found["tools"]),
            found["policy"],
            found.get("manifest"),
            tuple(ModelAddress(*map(str, each)) for each in found.get("addresses", ())),
            tuple(found.get("approved", ())),
            tuple(found.get("code", ())),
        )
        return _Record(kept, found["mark"], found["world"])
    except (DemiurgeError, LookupError, TypeError) as error:
        raise Unavailable(f"{place} is damaged: remove it, and name the tools with --tools.") from error


def _write(place: Path, world: Path, given: Remembered) -> None:
    """The caller has the folder locked."""
    node = {**asdict(given), "mark": _digest(world), "world": str(world.resolve())}
    node["folder"] = given.folders[0] if given.folders else ""  # what earlier versions read
    node |= {
        "tools": list(given.tools),
        "folders": list(given.folders),
        "approved": list(given.approved),
        "code": list(given.code),
    }
    node["addresses"] = [list(address) for address in given.addresses]
    write_closed(place, canonical_json.encode(node))


def _drop_gone(place: Path) -> None:
    """Look at the records that follow this one, which are others for each world."""
    names = sorted(path.name for path in place.parent.glob("*.json"))
    after = bisect(names, place.name)
    for name in (names[after:] + names[:after])[:LOOKED_AT]:
        path = place.with_name(name)
        with suppress(DemiurgeError, OSError):
            record = _read(path)
            if record is not None and record.kept == Remembered(code=record.kept.code) and _is_gone(record.world):
                path.unlink()


def _is_gone(folder: str) -> bool:
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False


def _place(environment: Mapping[str, str], world: Path) -> Path | None:
    config = config_folder(environment)
    if config is None:
        return None
    return config / "worlds" / f"{hashlib.sha256(str(world.resolve()).encode()).hexdigest()[:32]}.json"


def _digest(world: Path) -> str | None:
    try:
        mark = read_key(world / MARK)
    except Unavailable as error:
        raise Unavailable(f"{error.message} {OR_ACCEPT}", code="mark_changed") from error
    return hashlib.sha256(mark.reveal().encode()).hexdigest() if mark is not None else None
