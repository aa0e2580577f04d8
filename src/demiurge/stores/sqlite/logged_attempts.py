"""Attempts of state-changing effects, kept in two places: the database's table of attempts and the effect log.

Invariant: such an attempt is in both places before its effect runs. When a world is opened, the two are compared from
the end. An attempt that only the log has is in doubt if the journal still has all records from before it; if the
journal lacks some, no effect begins until a person has accepted the loss.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from demiurge import faults
from demiurge.errors import Damaged
from demiurge.stores.effect_log import EffectLog, LoggedAttempt
from demiurge.stores.errors import lost
from demiurge.stores.protocol import Attempt
from demiurge.stores.sqlite import exposures, journal, schema
from demiurge.stores.sqlite.database import Database
from demiurge.stores.sqlite.schema_objects import drop_foreign

__all__ = ["FILE", "AttemptTransaction", "LoggedAttempts", "remove_foreign"]

FILE: Final = "effects.log"
_ID: Final = "effects"
"""The meta key of the effect log's id. A world has a log from its first state-changing effect on."""
_ACCEPTING: Final = "accepting"
"""The meta key of a sentence about removed tables and triggers, until their removal is accepted."""


class LoggedAttempts:
    """The logged attempts of the world in `folder`. `lost`: sentences about missing data; `notices`: about attempts in
    doubt."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self._folder = folder
        self._log = EffectLog(folder / FILE)
        self._log_id: str | None = None
        self.notices: tuple[str, ...] = ()
        self.lost: tuple[str, ...] = ()
        try:
            self._log_id = schema.get_meta(db, _ID)
            removed = schema.get_meta(db, _ACCEPTING)
        except Damaged as error:
            self.lost = (error.message,)
        else:
            self.lost = (*((removed,) if removed else ()), *self._find_losses(db))

    def find(self, intents: Collection[bytes]) -> dict[bytes, Attempt]:
        """Returns the attempts that the log has of these intents."""
        if self._log_id is None or not intents:
            return {}
        return {
            intent: Attempt(intent, "", "", logged.started_ns, True)
            for intent, logged in self._log.find(intents).items()
        }

    def start(self, attempts: Sequence[Attempt], seed: str) -> AttemptTransaction | None:
        """Returns the additional work of a transaction with these attempts; None if none of them changes anything.
        `seed`: a text that no other log was made with. Raises Damaged, Unavailable."""
        changing = [attempt for attempt in attempts if attempt.changes]
        if not changing:
            return None
        if self.lost:
            raise lost(self.lost[0])
        made = None
        if self._log_id is None:
            made = self._log.read_id() or self._log.create(seed)
        self._log.make_room(len(changing))
        return AttemptTransaction(self, self._log, changing, made)

    def set_log_id(self, identity: str) -> None:
        self._log_id = identity

    def accept(self, db: sqlite3.Connection, seed: str) -> None:
        """Starts a new log, in the open transaction, which accepts all losses."""
        self._log_id = self._log.create(seed)
        schema.set_meta(db, _ID, self._log_id)
        schema.set_meta(db, _ACCEPTING, "")

    def clear_losses(self) -> None:
        """Clears `lost` after the transaction of `accept` is durable."""
        self.lost = ()

    def close(self) -> None:
        self._log.close()

    def _find_losses(self, db: sqlite3.Connection) -> list[str]:
        path = self._log.path
        try:
            found = self._log.read_id()
        except Damaged as error:
            return [error.message]
        if self._log_id is not None and found is None:
            return [f"{path}, the list of the state-changing effects that this world has begun, is gone."]
        if found is not None and self._log_id not in (None, found):
            return [f"{path} is the list of another world, or of this one before a loss was accepted."]
        return self._compare(db) if found is not None else []

    def _compare(self, db: sqlite3.Connection) -> list[str]:
        missing: list[LoggedAttempt] = []
        for logged in self._log.newest():
            if journal.attempts(db, [logged.intent]):
                break
            missing.append(logged)
        if not missing:
            return []
        file, since = self._folder / "journal.db", _when(missing[-1].started_ns)
        if self._log_id is None or not all(_holds(db, logged) for logged in missing):
            effects = f"{len(missing)} state-changing effects" if len(missing) > 1 else "a state-changing effect"
            return [f"{file} has lost its end, or is an older copy: {effects} begun since {since} are not in it."]
        calls = f"{len(missing)} effects that had begun are" if len(missing) > 1 else "an effect that had begun is"
        self.notices = (f"The end of {file}-wal was lost, after {since}: {calls} in doubt.",)
        return []


class AttemptTransaction:
    """One transaction with attempts that change something: call `before_rows` before its first row, and `append_to_log`
    when it is durable."""

    def __init__(self, owner: LoggedAttempts, log: EffectLog, attempts: Sequence[Attempt], made: str | None) -> None:
        self._owner, self._log, self._attempts, self._made = owner, log, attempts, made
        self._length, self._head = 0, b""

    def before_rows(self, db: sqlite3.Connection) -> None:
        self._length = journal.length(db)
        self._head = next(iter(journal.hashes(db, self._length, 1)), b"")
        if self._made is not None:
            schema.set_meta(db, _ID, self._made)

    def append_to_log(self) -> None:
        if self._made is not None:
            self._owner.set_log_id(self._made)
        faults.point("effects.before_log")
        sync = not all(attempt.claims for attempt in self._attempts)
        self._log.append(self._attempts, self._length, self._head, sync=sync)
        faults.point("effects.logged")


def remove_foreign(database: Database, path: Path) -> None:
    """Drops tables and triggers that Demiurge did not make from a world's database. The removal counts as a loss until
    it is accepted. Empties the index of blobs, which is made anew."""
    with database.writing("upgrade") as db:
        version = schema.format_of(db)
        if version == schema.FORMAT:
            exposures.forget(db)  # entries may be missing because of them
        if version is None or not (dropped := drop_foreign(db, schema.MAKERS[version])):
            return
        had = f"{path} had what Demiurge did not make ({', '.join(dropped)}), which may have changed what it holds."
        schema.set_meta(db, _ACCEPTING, had)


def _holds(db: sqlite3.Connection, logged: LoggedAttempt) -> bool:
    """Returns whether the journal has all records from before this attempt."""
    if not logged.length:
        return True
    found = next(iter(journal.hashes(db, logged.length, 1)), None)
    return isinstance(found, bytes) and found[: len(logged.head)] == logged.head


def _when(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
