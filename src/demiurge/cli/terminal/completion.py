"""Completion of the input line: slash commands and their arguments, tools by name, files for `/attach`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from demiurge.apps.demiurge import CHAT
from demiurge.cli import output
from demiurge.cli.cost import COST_TABLES
from demiurge.cli.terminal.slash_commands import COMMANDS
from demiurge.models.providers import PROVIDERS

if TYPE_CHECKING:
    from demiurge.cli.terminal.talk import Talk

__all__ = ["ChatCompleter"]

SHORTEST: Final = 2
"""The fewest characters of a word that a tool's name is offered for in a message."""


class ChatCompleter(Completer):
    """Completes for a talk. Arguments and tools are looked up when they are asked for with Tab."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yields the completions of the word before the cursor."""
        text = document.text_before_cursor
        command, gap, rest = text.partition(" ")
        if not text.startswith("/") or "\n" in text:
            yield from self._words(document.get_word_before_cursor(WORD=True))
        elif not gap:
            for name, about in COMMANDS.items():
                if f"/{name}".startswith(command):
                    yield Completion(f"/{name}", -len(command), display_meta=about.help)
        elif command == "/attach":
            yield from self._files.get_completions(Document(rest, len(rest)), complete_event)
        elif complete_event.completion_requested:
            for found in self._arguments(command):
                if found.startswith(rest):
                    yield Completion(found, -len(rest), display=output.plain(found))

    def _words(self, word: str) -> Iterator[Completion]:
        if len(word) >= SHORTEST:
            for name in self._tools():
                if name.startswith(word):
                    yield Completion(name, -len(word))

    def _arguments(self, command: str) -> list[str]:
        world, portal = self._talk.world, self._talk.portal
        match command:
            case "/tools" | "/why":
                return self._tools()
            case "/approve" | "/reject":
                return [one["id"][:12] for one in portal.run(world.approvals()) if one["id"] is not None]
            case "/chats":
                return portal.run(world.keys(CHAT))
            case "/cost":
                return list(COST_TABLES)
            case "/model":
                return [f"{name}/{row.default_model}" for name, row in PROVIDERS.items()]
        return []

    def _tools(self) -> list[str]:
        return sorted(str(spec["name"]) for spec in self._talk.world.manifest()["toolset"])
