"""The settings with which a user runs a world: tools, hosts, policy, the addresses of its chats' models, and the
manifest of its own that the user accepted. They are remembered, so that a later command need not name them.

A record is kept in the user's config folder, never in the world: a world that was copied, shared or found names no code
that is run here, and its manifest has no effect here. No record contains a key.

A record belongs to one world in one folder. The folder contains a random mark, and the record contains the digest of
the mark, so another world in the same folder has no record. A record follows a world that was moved. A moved world is
told from a copy by the file of its mark: the record contains the device, the inode and the change time of that file,
which a move of the folder preserves and a copy does not. The mark alone proves nothing, since everybody who had a copy
of the world knows it.

A remembered policy is never silently replaced by the default one. So recalling fails if the mark in a record's folder
has changed or is lost and the record names tools or a policy, and if a world is a copy of one for which a policy is
remembered. If a new world is made in the folder of a record, the record is renamed and kept, because the former world
may have been moved.

A record is read, changed and written under one lock, so nothing that threads or processes record at once is lost. The
record of a deleted world is removed when another record is written, if it contains only digests of code. Other records
are kept: the world may be on a disk that is not mounted, and its user should not have to decide again."""

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
from demiurge.bootstrap.manifest_settings import Evidence, Titles
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
"""The largest number of records of other worlds that one write examines."""


@dataclass(frozen=True, slots=True)
class WorldProfile:
    """The remembered settings of one world. It contains no code.

    `tools`: dotted module names, looked for in `folders`. `policy`: an absolute path. `manifest`: the hash of the
    world's own definitions; `former_manifest`: that of the definitions before. `addresses`: see `chat_address`.
    `approved`: see `local_approvals.LocalApprovals`. `code`: see `trusted_code.TrustedCode`. `hosts`: those that tools
    may ask by HTTP. `servers`: see `local_servers.LocalServers`. `observe_until_s`: the end of observing that the user
    named here (`authority.observing`), in seconds of wall time; 0 for none. `shown`: see `shown_definitions`.
    `system`: the system prompt of its chats. `evidence`, `titles`: the settings of these
    names."""

    folders: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    policy: str | None = None
    manifest: str | None = None
    addresses: tuple[ModelAddress, ...] = ()
    approved: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    former_manifest: str | None = None
    hosts: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    observe_until_s: int = 0
    shown: tuple[tuple[str, str], ...] = ()
    system: str | None = None
    evidence: Evidence | None = None
    titles: Titles | None = None


class NotRecalled(Unavailable):
    """The world is not the one that a record was written for, or can't be shown to be it. Code `mark_changed`: the
    folder of the record has another mark. Code `moved`: the world is a copy. `policy`: the policy in that record."""

    def __init__(self, message: str, *, code: str, policy: str | None) -> None:
        super().__init__(message, code=code)
        self.policy = policy


def recall(environment: Mapping[str, str], world: Path) -> WorldProfile | None:
    """Returns the remembered settings of the world in this folder; None if there are none, or no world. Raises
    NotRecalled, and Unavailable for a record that is damaged or that others could have changed."""
    place = _place(environment, world)
    if place is None:
        return None
    record = _find(place, world)
    if record is None and place.parent.exists() and (world / MARK).exists():
        with locked_folder(place.parent):  # it may have been on its way from one name to another
            record = _find(place, world)
    return record.kept if record is not None else None


def disown(environment: Mapping[str, str], world: Path) -> str | None:
    """Removes the record of another world in this folder, or of this world before its mark was lost. Returns a sentence
    about it, None if there was no such record. Raises Unavailable."""
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
    """Replaces the remembered profile by the one that `change` makes of it, and returns the new one; None if no home
    folder is known. `change` is called under the lock, so it must not wait. For a copy of a world nothing is recorded
    without a policy. Raises NotRecalled, Unavailable."""
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


def forget(environment: Mapping[str, str], world: Path) -> WorldProfile:
    """Forgets the tools, the hosts, the policy, the addresses, the system prompt and the settings `evidence` and
    `titles` of the world in this folder, and returns the profile with them. Removes a record that can't be read as a
    whole, and returns an empty profile. Raises Unavailable."""
    place = _place(environment, world)
    if place is None or not (place.exists() or (world / MARK).exists()):
        return WorldProfile()
    with locked_folder(place.parent):
        record, alike = None, []
        with suppress(Unavailable):
            alike = _alike(place, world)
            record = _find(place, world)
        kept = record.kept if record is not None else WorldProfile()
        left = replace(kept, folders=(), tools=(), hosts=(), policy=None, addresses=(), observe_until_s=0)
        left = replace(left, system=None, evidence=None, titles=None)
        if left != WorldProfile() or any(other.kept.policy is not None for other in alike if other != record):
            _write(place, world, left, record)
        elif record is not None:
            record.path.unlink()
        else:
            _set_aside(place)
    return kept


def remembered_words(kept: WorldProfile) -> str:
    """Returns the options of the command line that set the same tools, hosts, policy, system prompt, `evidence` and
    `titles`."""
    named = [("--policy", kept.policy), ("--system", kept.system), ("--evidence", kept.evidence)]
    named.append(("--titles", kept.titles))
    repeated = [("--tools", kept.tools), ("--allow-host", kept.hosts)]
    repeated += [(option, (value,)) for option, value in named if value is not None]
    return shlex.join(word for option, values in repeated for value in values for word in (option, value))


class _Record(NamedTuple):
    """A stored record. `mark`: the digest of the world's mark. `world`: the world's folder when the record was written.
    `file`: the identity of the mark's file at that time (`_file`); None in a record of an earlier version."""

    path: Path
    kept: WorldProfile
    mark: str | None
    world: str
    file: str | None


def _find(place: Path, world: Path) -> _Record | None:
    """Returns the record of the world in this folder; `place` is where a record for this folder lies. Raises as
    `recall`."""
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
    if (here is not None and (here.kept.tools or here.kept.policy is not None)) or problem is not None:
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
    """Returns the records for other folders that have the same mark."""
    mark = _digest(world)
    return [record for record in _others(place) if record.mark == mark] if mark is not None else []


def _others(place: Path) -> Iterator[_Record]:
    """Yields the readable records for other folders."""
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
            tuple(map(str, found.get("hosts", ()))),
            tuple(map(str, found.get("servers", ()))),
            int(found.get("observe_until_s", 0)),
            tuple((str(tool), str(pin)) for tool, pin in found.get("shown", ())),
            found.get("system"),
            found.get("evidence"),
            found.get("titles"),
        )
        return _Record(place, kept, found["mark"], found["world"], found.get("file"))
    except (DemiurgeError, LookupError, TypeError, ValueError) as error:
        raise Unavailable(f"{place} is damaged: remove it, and name the tools with --tools.") from error


def _write(place: Path, world: Path, given: WorldProfile, before: _Record | None) -> None:
    """Writes a record in place of the record `before`, which may be for another folder. The caller holds the lock of
    the config folder."""
    node = {**asdict(given), "mark": _digest(world), "world": str(world.resolve()), "file": _file(world)}
    node["folder"] = given.folders[0] if given.folders else ""  # what earlier versions read
    node |= {
        "tools": list(given.tools),
        "folders": list(given.folders),
        "approved": list(given.approved),
        "code": list(given.code),
        "hosts": list(given.hosts),
        "servers": list(given.servers),
        "shown": [list(each) for each in given.shown],
    }
    node["addresses"] = [list(address) for address in given.addresses]
    if before is None or before.path != place:
        _set_aside(place)
    write_private(place, canonical_json.encode(node))
    if before is not None and before.path != place:
        before.path.unlink(missing_ok=True)


def _set_aside(place: Path) -> None:
    """Renames the record for this folder, which belongs to a world that is no longer here. A record with nothing but
    digests of code is removed."""
    with suppress(Unavailable):
        record = _read(place)
        if record is not None and record.mark is not None and not _is_small(record.kept):
            place.replace(place.with_name(f"{record.mark[:32]}.json"))
    place.unlink(missing_ok=True)


def _drop_gone(place: Path) -> None:
    """Removes records of deleted worlds that contain only digests of code. Examines the `LOOKED_AT` records after this
    one in the order of their names, so different worlds examine different records."""
    names = sorted(path.name for path in place.parent.glob("*.json"))
    after = bisect(names, place.name)
    for name in (names[after:] + names[:after])[:LOOKED_AT]:
        path = place.with_name(name)
        with suppress(DemiurgeError, OSError):
            record = _read(path)
            if record is not None and _is_small(record.kept) and _is_gone(record.world):
                path.unlink()


def _is_small(kept: WorldProfile) -> bool:
    """Returns whether a record has nothing but digests."""
    return kept == WorldProfile(code=kept.code, shown=kept.shown)


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
    """Returns the identity of the mark's file: device, inode and change time. A copy of the file has another one."""
    try:
        found = os.stat(world / MARK)
    except OSError:
        return None
    return f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}"
