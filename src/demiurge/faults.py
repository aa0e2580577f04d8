"""Fault points: named places where a test can make the machine fail (power cut, full disk, broken disk).

Invariant: if no fault is armed, `point(name)` is one global load and a branch. So the points stay in the shipped code,
and tests run the same code as users. If any fault is armed, an unknown name is an error, so the table below is
complete. Arm faults in code (`with armed({"journal.before_commit": "kill"})`) or, for a child process, by the
environment variable `DEMIURGE_FAULTS`, read once at import: `journal.before_commit=kill@3;blob.before_rename=enospc`.

A fault is an action and, after `@`, the hit at which it fires: `@3` the third hit only, `@3+` the third and all later
ones, nothing: every hit. Actions: `kill` (SIGKILL to this process, like a power cut), `exit` (leave at once, no
clean-up, status 86), `enospc`, `eio`, `erofs` (raise that OSError), or any exception (in code only).

A point whose name begins with `mark.` is not in the table: the author of a tool marks it (`demiurge.testing`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from demiurge.errors import UsageError

__all__ = ["EXIT_STATUS", "POINTS", "VARIABLE", "Fault", "armed", "noted", "parse", "point"]

VARIABLE: Final = "DEMIURGE_FAULTS"
EXIT_STATUS: Final = 86

POINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "archive.before_write": "an archive's temp file exists and is empty",
        "archive.before_fsync": "an archive's bytes are written, none is sure to be on disk",
        "archive.before_rename": "an archive is durable, it has no name yet",
        "archive.after_rename": "an archive has its name, the folder is not yet durable",
        "archive.before_commit": "rows are emptied and their archive noted, not yet durable",
        "archive.after_commit": "rows have their bytes in an archive, the caller doesn't know yet",
        "attempts.before_commit": "attempts are written, not yet durable",
        "attempts.after_commit": "attempts are durable, the caller doesn't know yet",
        "remove.before_unlink": "a blob file is to be removed, it is still there",
        "blob.before_write": "a blob file's temp file exists and is empty",
        "blob.half_written": "half of a blob file's bytes are in the temp file",
        "blob.before_fsync": "all bytes are written, none is sure to be on disk",
        "blob.before_rename": "the temp file is durable, the blob has no name yet",
        "blob.after_rename": "the blob has its name, the folder is not yet durable",
        "blob.before_commit": "inline blobs are written, not yet durable",
        "blob.after_commit": "inline blobs are durable, the caller doesn't know yet",
        "connection.sealed": "a connection's credentials are in the vault, the world does not know it",
        "connection.added": "a connection is durable, the caller doesn't know yet",
        "connection.revoked": "a connection is revoked, its credentials are still in the vault",
        "create.before_commit": "a new world's tables are written, not yet durable",
        "create.after_commit": "a new world is durable, the caller doesn't know yet",
        "doubt.decided": "a person's verdict on a doubt is durable, the ledger does not know it",
        "doubt.ledger_agrees": "the ledger has the person's verdict, no unit was told",
        "doubt.settled": "a doubt is settled for good, the caller doesn't know yet",
        "effect.attempted": "an attempt is durable, nothing is done outside yet",
        "effect.before_attempt": "an intent is durable, it has no attempt",
        "effect.performed": "an effect is done, its outcome is only in memory",
        "effect.received": "a receipt is durable, the waiting caller doesn't know yet",
        "effects.before_log": "attempts are durable in the journal, not yet in the effect log",
        "effects.logged": "attempts are in the effect log too, nothing is done outside yet",
        "erase.before_commit": "the erasure of a blob is written, not yet durable",
        "erase.after_commit": "the erasure of a blob is durable, its bytes are still on disk",
        "erased.before_commit": "an erased blob's bytes are gone, the end of the erasure is not yet durable",
        "erased.after_commit": "a blob is erased, the caller doesn't know yet",
        "file.after_rename": "a file has its new bytes, the folder is not yet durable",
        "file.before_rename": "a file's new bytes are durable beside it, it has its old ones",
        "file.half_written": "half of a file's new bytes are beside it",
        "fork.after_rename": "a fork has its folder, the folder above is not yet durable",
        "fork.before_rename": "a fork is complete and closed, not yet in its place",
        "gc.before_commit": "garbage is removed, its removal from the database is not yet durable",
        "gc.after_commit": "some garbage is removed for good, more may be there",
        "hand_over.before_request": "a process is about to ask the owner of a world to hand it over",
        "hand_over.drained": "nothing runs in a world that is handed over, its owner still has the lock",
        "hand_over.released": "the owner of a world has released its lock, and has not joined the next owner",
        "hand_over.taken": "a process has the lock of a world that it took over, its manifest is the old one",
        "journal.before_rows": "a transaction is open, no row is written",
        "journal.before_commit": "rows, heads and outbox are written, not yet durable",
        "journal.after_commit": "rows are durable, the caller doesn't know yet",
        "layer.exported": "a layer file is written, the world has not noted it",
        "layer.proposed": "the changes in a layer file are proposed, the world has not noted that it read the file",
        "ledger.claim.after_commit": "a call's claim is durable, the call has not begun",
        "ledger.claim.before_commit": "a call's claim is written, not yet durable",
        "ledger.create.after_commit": "a new ledger is durable, the caller doesn't know yet",
        "ledger.create.before_commit": "a new ledger's tables are written, not yet durable",
        "ledger.doubt.after_commit": "a call's doubt is durable, nobody was told",
        "ledger.doubt.before_commit": "a call's doubt is written, not yet durable",
        "ledger.edit.after_commit": "a change to a ledger is durable, the caller doesn't know yet",
        "ledger.edit.before_commit": "a change to a ledger is written, not yet durable",
        "ledger.release.after_commit": "a claim is released for good, nobody was told",
        "ledger.release.before_commit": "a claim's release is written, not yet durable",
        "ledger.settle.after_commit": "a call's result is durable, nobody was told",
        "ledger.settle.before_commit": "a call is done, its result is written, not yet durable",
        "manifest.accepted": "the user has accepted the definitions that a world is to keep, it has its old ones",
        "manifest.kept": "a world keeps new definitions, no record says so",
        "manifest.recorded": "the log of manifests has a new one, it is not yet in force",
        "manifest.stored": "a manifest and its code are stored, the log does not have it",
        "mcp.accepted": "this user's record names an MCP server, the world does not know it",
        "mcp.added": "an MCP server is durable, the caller doesn't know yet",
        "mcp.removed": "an MCP server is removed, the manifest in force still has its tools",
        "mcp.trusted": "tools of an MCP server are pinned, the manifest in force does not have them",
        "mcp.untrusted": "tools of an MCP server are not trusted any more, the manifest in force still has them",
        "mcp.listed": "what an MCP server listed is noted, the manifest in force does not say so",
        "meta.before_commit": "a meta value is written, not yet durable",
        "meta.after_commit": "a meta value is durable, the caller doesn't know yet",
        "oauth.issued": "an authorization server has issued tokens for a login, nothing has stored them",
        "oauth.renewed": "an authorization server has issued new tokens, the vault has the old ones",
        "outbox.before_delivery": "a message is durable in the outbox, its target doesn't know of it",
        "request.answered": "a capability request has its durable answer, the tool doesn't know yet",
        "request.taken": "a capability request of a running tool is durable, it has no answer",
        "snapshot.before_commit": "a snapshot is written, not yet durable",
        "snapshot.after_commit": "a snapshot is durable, the caller doesn't know yet",
        "store.before_checkpoint": "closing: the newest rows are only in the write-ahead log",
        "store.before_rewrite": "the database is to be written anew, without what was deleted",
        "store.after_rewrite": "the database is written anew in the write-ahead log, its file is the old one",
        "store.after_checkpoint": "closing: all rows are in the main file, it is still open",
        "tiles.before_commit": "hashes of the seals' tree are written, not yet durable",
        "tiles.after_commit": "hashes of the seals' tree are durable, the caller doesn't know yet",
        "tool.blobs_held": "a tool's large results and parts are held for its receipt, which is not stored",
        "tool.ran": "a tool is done, its result is not stored",
        "unit.acknowledged": "a step is durable and acknowledged, its effects are not dispatched",
        "unit.advanced": "a step is computed, nothing of it is written",
        "unit.committed": "a step is durable, nobody was told",
        "upgrade.before_commit": "a world's new tables are written, not yet durable",
        "upgrade.after_commit": "a world is of the new format, the caller doesn't know yet",
        "webhook.added": "a webhook is durable, the caller doesn't know yet",
        "webhook.not_told": "a call waits for a person, a webhook was not told of it",
        "webhook.discarded": "a webhook's key is out of the vault, the world still has the webhook",
        "webhook.sealed": "a webhook's key is in the vault, the world does not know it",
        "webhook.withdrawn": "a call waits no more and a webhook knows it, its next attempt is still open",
        "connections.after_commit": "a change to a connection store is durable, the caller doesn't know yet",
        "connections.before_commit": "a change to a connection store is written, not yet durable",
    }
)

_ERRNO: Final = {"enospc": errno.ENOSPC, "eio": errno.EIO, "erofs": errno.EROFS}
_MARK: Final = re.compile(r"mark\.[a-z0-9_]+")
_ENTRY: Final = re.compile(r"(?P<name>[a-z0-9_.]+)=(?P<action>[a-z]+)(?:@(?P<at>[1-9][0-9]*)(?P<onwards>\+)?)?")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at a point: the action, and the hit at which it fires; `at` counts from 1, 0 means every hit."""

    action: str | BaseException | type[BaseException]
    at: int = 0
    onwards: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.action, str) and self.action not in {"kill", "exit", *_ERRNO}:
            raise UsageError(f"There is no fault action {self.action!r}: use kill, exit, enospc, eio or erofs.")


class _Armed:
    """The armed faults, and the number of hits of each point."""

    def __init__(self, faults: Mapping[str, Fault], passed: list[str] | None = None) -> None:
        for name in faults:
            _known(name)
        self.faults, self.passed = dict(faults), passed
        self._hits = dict.fromkeys(faults, 0)
        self._lock = threading.Lock()

    def hit(self, name: str) -> None:
        _known(name)
        if self.passed is not None:
            self.passed.append(name)
        fault = self.faults.get(name)
        if fault is None:
            return
        with self._lock:
            self._hits[name] += 1
            count = self._hits[name]
        if fault.at == 0 or count == fault.at or (fault.onwards and count > fault.at):
            _fire(name, fault.action)


_armed: _Armed | None = None


def point(name: str) -> None:
    """Runs the fault that is armed for `name`, if any."""
    if _armed is not None:
        _armed.hit(name)


@contextlib.contextmanager
def armed(faults: Mapping[str, str | Fault | BaseException | type[BaseException]]) -> Iterator[None]:
    """Arms faults for the block, in all threads, in addition to those armed already; counts of hits start at zero.

    A value is a `Fault`, an exception to raise, or the text form (`"kill@3"`). Raises UsageError for a name that is not
    in `POINTS` or an unknown action.
    """
    global _armed
    before = _armed
    given = {name: _fault(name, value) for name, value in faults.items()}
    _armed = _Armed({**(before.faults if before else {}), **given}, before.passed if before else None)
    try:
        yield
    finally:
        _armed = before


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """Yields a list to which each point that the block passes is added, in all threads. Faults stay armed."""
    global _armed
    before, passed = _armed, list[str]()
    _armed = _Armed(before.faults if before else {}, passed)
    try:
        yield passed
    finally:
        _armed = before


def parse(text: str) -> dict[str, Fault]:
    """Returns the faults of `name=action[@n[+]];...`. Raises UsageError for any other text."""
    faults: dict[str, Fault] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise UsageError(f"{VARIABLE} can't be read at {entry!r}: write point=action, point=action@3 or @3+.")
        at = int(match["at"] or 0)
        faults[_known(match["name"])] = Fault(match["action"], at, match["onwards"] is not None)
    return faults


def _fault(name: str, value: str | Fault | BaseException | type[BaseException]) -> Fault:
    if isinstance(value, Fault):
        return value
    return parse(f"{name}={value}")[name] if isinstance(value, str) else Fault(value)


def _known(name: str) -> str:
    if name not in POINTS and _MARK.fullmatch(name) is None:
        raise UsageError(f"There is no fault point {name!r}: see demiurge.faults.POINTS.")
    return name


def _fire(name: str, action: str | BaseException | type[BaseException]) -> None:
    if not isinstance(action, str):
        raise action
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()  # waits for the signal, so that nothing runs in between
    if action == "exit":
        os._exit(EXIT_STATUS)
    raise OSError(_ERRNO[action], f"{os.strerror(_ERRNO[action])} (fault point {name})")


if os.environ.get(VARIABLE):
    _armed = _Armed(parse(os.environ[VARIABLE]))
