"""The settings with which a user runs a world: tools, policy, the addresses of its chats' models, and the manifest of
its own that the user accepted. They are remembered, so that they need not be named again.

It is kept in the user's config folder, never in the world: a world that was copied, shared or found names no code that
is run here, and has no manifest that counts here. A record is for one world in one place: the world's folder has a
random mark, and the record its digest, so another world that takes the place has none. No key is ever in it.

A record goes along with a world that was moved. What tells a moved world from a copy is the file of its mark: a record
names the device, the inode and the time of the last change of that file, which moving a folder leaves as they are and
no copy has. The mark alone proves nothing, since anybody who had a copy of the world knows it.

A policy that was remembered is never passed over for the default one. So recalling fails if the mark of the world in a
record's place is another one or is lost, and if a world is a copy of one for which a policy is remembered. A record in
whose place a new world is made is set aside, under another name, for the world that was there may have been moved.

A record is read, changed and written under one lock, so nothing that threads or processes note at once is lost. One
whose world is gone is dropped when another is written, if it holds nothing but digests of code: the world may be on a
disk that is away, and what somebody decided of it is not to be decided again."""

from __future__ import annotations

import hashlib
import os
import shlex
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from demiurge.bootstrap.chat_address import ModelAddress
from demiurge.bootstrap.secrets import config_folder
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.errors import OR_ACCEPT
from demiurge.stores.secret_file import locked_folder, read_private, write_private
from demiurge.stores.secret_key import read_key, read_or_make_key
from demiurge.values import canonical_json
from demiurge.values.clock import SystemEntropy

__all__ = ["MOVED", "NotRecalled", "WorldProfile", "disown", "forget", "recall", "remember", "remembered_words"]

MARK = "mark.key"
_JOURNAL = "journal.db"
MOVED = "moved"
"""The code of NotRecalled for a copy."""
LONGEST = 256 * 1024
LOOKED_AT = 32
"""Most records of other worlds that a write looks at."""


@dataclass(frozen=True, slots=True)
class WorldProfile:
    """`tools`: dotted module names, looked for in `folders`; `policy`: an absolute path; `manifest`: the hash of the
    world's own definitions, and `former_manifest` that of the ones before; `addresses`: see `chat_address`; `approved`:
    see `approved.LocalApprovals`; `code`: see `own_code.TrustedCode`. Nothing of it is code."""

    folders: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    policy: str | None = None
    manifest: str | None = None
    addresses: tuple[ModelAddress, ...] = ()
    approved: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    former_manifest: str | None = None


class NotRecalled(Unavailable):
    """The world is not, or can't be shown to be, the one that a record is for: `mark_changed` where the record's own
    place has another mark, `moved` for a copy. `policy`: the one in that record."""

    def __init__(self, message: str, *, code: str, policy: str | None) -> None:
        super().__init__(message, code=code)
        self.policy = policy


def recall(environment: Mapping[str, str], world: Path) -> WorldProfile | None:
    """Returns what is remembered of the world in this folder; None for nothing, or if there is no world. Raises
    NotRecalled, and Unavailable for a record that others could have changed, or that is none."""
    place = _place(environment, world)
    if place is None:
        return None
    record = _find(place, world)
    if record is None and place.parent.exists() and (world / MARK).exists():
        with locked_folder(place.parent):  # it may have been on its way from one name to another
            record = _find(place, world)
    return record.kept if record is not None else None


def disown(environment: Mapping[str, str], world: Path) -> str | None:
    """Forgets what is remembered of another world in this folder, or of this one before its mark was lost: a sentence
    about it; None where there is nothing of that kind. Raises Unavailable."""
    place = _place(environment, world)
    if place is None or not (place.exists() or (world / MARK).exists()):
        return None
    was_remembered = place.exists()
    with locked_folder(place.parent):
        try:
            _find(place, world)
            return None
        except NotRecalled as error:
            if error.code == MOVED:
                return None
        except Unavailable:
            pass
        _set_aside(place)
    if (world / MARK).exists():
        with suppress(Unavailable):
            read_key(world / MARK)
            return f"{world / MARK} was not the one for which {place} remembered tools, policy and approvals."
        (world / MARK).unlink()
    if not was_remembered:
        return f"{world / MARK}, which could not be read, was removed."
    return f"{world / MARK}, for which {place} remembered tools, policy and approvals, was lost."


def remember(
    environment: Mapping[str, str], world: Path, change: Callable[[WorldProfile], WorldProfile]
) -> WorldProfile | None:
    """Keeps the profile that `change` makes of the one that is kept, and returns it; None if no home folder is known.
    `change` is called while nobody else can write, so it must not wait. Of a copy nothing is kept without a policy.
    Raises NotRecalled, Unavailable."""
    place = _place(environment, world)
    if place is None:
        return None
    with locked_folder(place.parent):
        record, refused = None, None
        try:
            record = _find(place, world)
        except NotRecalled as error:
            refused = error
        kept = record.kept if record is not None else WorldProfile()
        given = change(kept)
        if refused is not None and (refused.code != MOVED or given.policy is None):
            raise refused
        if given != kept or (record is not None and (record.path, record.file) != (place, _file(world))):
            read_or_make_key(world / MARK, SystemEntropy())
            _write(place, world, given, record)
            _drop_gone(place)
    return given


def forget(environment: Mapping[str, str], world: Path) -> None:
    """Removes the tools, the policy and the addresses of the world in this folder; with a record that can't be read,
    nothing. Raises Unavailable."""
    place = _place(environment, world)
    if place is None or not (place.exists() or (world / MARK).exists()):
        return
    with locked_folder(place.parent):
        record, alike = None, []
        with suppress(Unavailable):
            alike = _alike(place, world)
            record = _find(place, world)
        kept = record.kept if record is not None else WorldProfile()
        left = replace(kept, folders=(), tools=(), policy=None, addresses=())
        if left != WorldProfile() or any(other.kept.policy is not None for other in alike if other != record):
            _write(place, world, left, record)
        elif record is not None:
            record.path.unlink()
        else:
            _set_aside(place)


def remembered_words(kept: WorldProfile) -> str:
    """Returns the options of the command line that say the same."""
    policy = ["--policy", kept.policy] if kept.policy else []
    return shlex.join([*(word for name in kept.tools for word in ("--tools", name)), *policy])


class _Record(NamedTuple):
    """`mark`: the digest of the world's; `world` and `file`: its folder, and which file its mark was (`_file`), when
    this was written; an earlier version wrote no `file`."""

    path: Path
    kept: WorldProfile
    mark: str | None
    world: str
    file: str | None


def _find(place: Path, world: Path) -> _Record | None:
    """Returns the record of the world in this folder, whose own place is `place`. Raises as `recall`."""
    here = _read(place)
    problem = mark = None
    try:
        mark = _digest(world)
    except Unavailable as error:
        problem = error
    if here is not None and problem is None and here.mark == mark:
        return here
    alike = _alike(place, world) if problem is None else []
    for record in alike:
        if record.file is not None and record.file == _file(world):
            return record
    if not os.path.exists(world / _JOURNAL):
        return None
    if here is not None or problem is not None:
        known = here or next((record for record in _others(place) if record.kept.policy is not None), None)
        if known is None:
            return None
        why = f"{world / MARK} is not the one for which {place} remembers tools, policy and approvals."
        why = problem.message if problem is not None else why
        raise NotRecalled(f"{why} {OR_ACCEPT}", code="mark_changed", policy=known.kept.policy)
    strict = next((record for record in alike if record.kept.policy is not None), None)
    if strict is not None:
        command = shlex.join(["demiurge", "-w", str(world), "init"])
        raise NotRecalled(
            f"{world} has the mark of the world in {strict.world}, for which a policy is remembered: it was copied, or "
            f"moved from another disk. If you did that, `{command} {remembered_words(strict.kept)}` goes on with that "
            f"policy, and `{command} --forget` with the default one.",
            code=MOVED,
            policy=strict.kept.policy,
        )
    return None


def _alike(place: Path, world: Path) -> list[_Record]:
    """Yields the records of worlds in other places that have the same mark."""
    mark = _digest(world)
    return [record for record in _others(place) if record.mark == mark] if mark is not None else []


def _others(place: Path) -> Iterator[_Record]:
    """The records in other places than this, as far as they can be read."""
    for path in sorted(place.parent.glob("*.json")):
        with suppress(DemiurgeError, OSError):
            record = _read(path) if path != place else None
            if record is not None:
                yield record


def _read(place: Path) -> _Record | None:
    data = read_private(place, LONGEST)
    if data is None:
        return None
    try:
        found = canonical_json.parse_object(data)
        kept = WorldProfile(
            tuple(map(str, found.get("folders") or filter(None, (found["folder"],)))),
            tuple(found["tools"]),
            found["policy"],
            found.get("manifest"),
            tuple(ModelAddress(*map(str, each)) for each in found.get("addresses", ())),
            tuple(found.get("approved", ())),
            tuple(found.get("code", ())),
            found.get("former_manifest"),
        )
        return _Record(place, kept, found["mark"], found["world"], found.get("file"))
    except (DemiurgeError, LookupError, TypeError) as error:
        raise Unavailable(f"{place} is damaged: remove it, and name the tools with --tools.") from error


def _write(place: Path, world: Path, given: WorldProfile, before: _Record | None) -> None:
    """In place of the record `before`, which may be in another place. The caller has the folder locked."""
    node = {**asdict(given), "mark": _digest(world), "world": str(world.resolve()), "file": _file(world)}
    node["folder"] = given.folders[0] if given.folders else ""  # what earlier versions read
    node |= {
        "tools": list(given.tools),
        "folders": list(given.folders),
        "approved": list(given.approved),
        "code": list(given.code),
    }
    node["addresses"] = [list(address) for address in given.addresses]
    if before is None or before.path != place:
        _set_aside(place)
    write_private(place, canonical_json.encode(node))
    if before is not None and before.path != place:
        before.path.unlink(missing_ok=True)


def _set_aside(place: Path) -> None:
    """Gives the record in this place, of a world that is not here, another name; one that says nothing is removed."""
    with suppress(Unavailable):
        record = _read(place)
        if record is not None and record.mark is not None and record.kept != WorldProfile(code=record.kept.code):
            place.replace(place.with_name(f"{record.mark[:32]}.json"))
    place.unlink(missing_ok=True)


def _drop_gone(place: Path) -> None:
    """Moves on to the records that follow this one, which are others for each world."""
    names = sorted(path.name for path in place.parent.glob("*.json"))
    after = bisect(names, place.name)
    for name in (names[after:] + names[:after])[:LOOKED_AT]:
        path = place.with_name(name)
        with suppress(DemiurgeError, OSError):
            record = _read(path)
            if record is not None and record.kept == WorldProfile(code=record.kept.code) and _is_gone(record.world):
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
    mark = read_key(world / MARK)
    return hashlib.sha256(mark.reveal().encode()).hexdigest() if mark is not None else None


def _file(world: Path) -> str | None:
    """Returns a name of the file that is the world's mark; another file, also a copy, has another name."""
    try:
        found = os.stat(world / MARK)
    except OSError:
        return None
    return f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}"
