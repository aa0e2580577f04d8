"""The ledger of a world, in a file of its own beside the journal. The file is made when a tool needs it.

The world's store contains the id of the ledger, so a ledger that was deleted or exchanged is noticed.

The ledger records effects on the outside, and the outside has no forks. So a fork of a world begins with a copy of the
whole ledger as it is when the fork is made, at whatever position it is forked; entries that are open then are in doubt
in the fork.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from demiurge.bootstrap.lost_entries import doubt_again
from demiurge.errors import Damaged, Unavailable
from demiurge.stores.errors import lost
from demiurge.stores.protocol import Store
from demiurge.stores.read_only import NO_WRITES, ReadOnly
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools.ledger.idempotency import IdempotencyStrategy
from demiurge.tools.ledger.store import LedgerRow
from demiurge.tools.result import join_text
from demiurge.tools.source import ToolSource
from demiurge.values.clock import Clock
from demiurge.values.refs import ref_of
from demiurge.world.retention.traces import Mention
from demiurge.world.retention.words import ErasedWords, message_of

__all__ = ["WorldLedger"]

_NAME = "ledger.db"
_ID = "ledger"
"""The entry of the world's meta data with the id of its ledger."""
_ERASED = "This call was done before, and is not run again; its result was erased."


class WorldLedger:
    """The ledger of the world in `folder`; the caller closes it. `store`, if given, keeps the ledger's id. Raises what
    `SqliteEffectLedger` raises, and Damaged (`lost`)."""

    def __init__(self, folder: Path, clock: Clock, store: Store | None = None) -> None:
        self._path, self._clock, self._store = folder / _NAME, clock, store
        self._opening = threading.Lock()
        self._open: SqliteEffectLedger | None = None
        self._looked: SqliteEffectLedger | None = None

    def opened(self, source: ToolSource, *, may_change: bool = False) -> SqliteEffectLedger | None:
        """Opens the ledger. Returns None if no tool of `source` has an `idempotency` and no later tool can have one
        (`may_change`)."""
        bound = (source.get(spec.name) for spec in source.specs())
        configs = [tool.idempotency for tool in bound if tool is not None and tool.idempotency is not None]
        if may_change or any(config.strategy is not IdempotencyStrategy.NONE for config in configs):
            return self._opened()
        return self._open

    def existing(self) -> SqliteEffectLedger | None:
        """Returns the ledger, read-only if the disk takes no writes; None if the world has none."""
        if self._open is None and not (self._path.exists() or self._known()):
            return None
        with self._opening:
            if self._open is not None:
                return self._open
            if self._looked is None:
                found = self._readable()
                if not found.is_read_only:
                    self._open = found
                    return found
                self._looked = found
            return self._looked

    def lost(self) -> tuple[str, ...]:
        """Returns a sentence that names the file if entries of the ledger are lost or have changed; reads all of them.
        Returns nothing for a ledger that can't be read."""
        if self._open is None and not (self._path.exists() or self._known()):
            return ()
        try:
            if self._open is not None:
                self._open.check()
            else:
                with self._readable() as ledger:
                    ledger.check()
        except Damaged as error:
            return (_as_loss(error).message,)
        except Unavailable:
            return ()
        return ()

    def accept_losses(self, source: ToolSource) -> None:
        """Keeps the entries that are intact. Calls in the journal that have no entry become doubts, if their tools are
        in `source`."""
        with self._made(accepts_losses=True) as ledger:
            if self._store is not None:
                doubt_again(self._store, source, ledger, self._clock)
            self._note(ledger)

    def _opened(self) -> SqliteEffectLedger:
        with self._opening:
            if self._open is None:
                self._open = self._checked()
            return self._open

    def copy_to(self, folder: Path) -> None:
        """Copies all entries to the ledger of another world."""
        if self._open is not None:
            self._open.copy_to(folder / _NAME)
        elif self._path.exists() or self._known():
            with self._readable() as ledger:
                ledger.copy_to(folder / _NAME)

    def forget(
        self, blobs: Collection[bytes], words: ErasedWords, *, dry_run: bool
    ) -> tuple[list[Mention], list[Mention]]:
        """Erases the results that messages of tools show, and returns where else the ledger contains their words: in
        results of other calls, and in keys, which can't be erased. The entry of a call stays, so the call does not run
        again."""
        ledger = self.existing()
        return ([], []) if ledger is None else _forget(ledger, blobs, words, dry_run=dry_run)

    def close(self) -> None:
        for ledger in (self._open, self._looked):
            if ledger is not None:
                ledger.close()

    def _readable(self) -> SqliteEffectLedger:
        """Opens the ledger, read-only if the world is read-only or the disk takes no writes."""
        read_only = self._store.read_only if self._store is not None else None
        try:
            return self._checked(read_only)
        except Unavailable as error:
            if read_only is not None or error.code not in NO_WRITES:
                raise
            return self._checked(ReadOnly(error, alone=True))

    def _checked(self, read_only: ReadOnly | None = None) -> SqliteEffectLedger:
        known = self._known()
        if known and not self._path.exists():
            raise lost(f"{self._path}, which knows what the tools of this world have done, is gone.")
        try:
            ledger = self._made(read_only=read_only)
        except Damaged as error:
            raise _as_loss(error) from error
        if known is None:
            if read_only is None:
                self._note(ledger)
        elif known != ledger.id:
            ledger.close()
            raise lost(f"{self._path} is not the ledger that this world has used.")
        return ledger

    def _made(self, *, accepts_losses: bool = False, read_only: ReadOnly | None = None) -> SqliteEffectLedger:
        return SqliteEffectLedger(self._path, clock=self._clock, accepts_losses=accepts_losses, read_only=read_only)

    def _known(self) -> str | None:
        return self._store.get_meta(_ID) if self._store is not None else None

    def _note(self, ledger: SqliteEffectLedger) -> None:
        if self._store is not None:
            self._store.set_meta(_ID, ledger.id)


def _as_loss(error: Damaged) -> Damaged:
    if error.code == "lost":
        return error
    return lost(error.message.removesuffix(": restore it from a backup.").removesuffix(".") + ".")


def _forget(
    ledger: SqliteEffectLedger, blobs: Collection[bytes], words: ErasedWords, *, dry_run: bool
) -> tuple[list[Mention], list[Mention]]:
    messages = [message for message in map(message_of, blobs) if message is not None and message["role"] == "tool"]
    shown = ["".join(_texts(message["content"])) for message in messages]
    gone, quotes, inline = [], [], []
    for row in ledger.results():
        mention = Mention("ledger", f"{row.slot.tool_name} {row.slot.key}")
        if words.copied_in(row.slot.key):
            inline.append(mention)
        if _is_shown(row, shown) or any(part.data in blobs for part in row.parts):
            gone.append(row.slot)
        elif any(words.copied_in(text) for text in (row.message, row.rendering or "", row.value)):
            quotes.append(mention)
    if gone and not dry_run:
        ledger.erase_results(gone, _ERASED)
    return quotes, inline


def _texts(content: str | Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yields the texts of a message's content."""
    for part in ({"text": content},) if isinstance(content, str) else content:
        yield part.get("text", "")


def _is_shown(row: LedgerRow, contents: Sequence[str]) -> bool:
    """Returns whether this is a text that a model was given, or one of which it was told the address."""
    rendering = row.rendering if row.rendering is not None else row.value.decode("utf-8", "replace")
    text = join_text(row.message, "" if row.excluded else rendering)
    ref = ref_of(text.encode())
    return bool(text) and any(text == content or ref in content for content in contents)
