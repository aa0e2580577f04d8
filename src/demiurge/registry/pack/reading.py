"""Reading the files that a call names: how many there may be, which could not be read, and what their evidence is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from demiurge.registry.evidence import MAX_QUOTE, EvidenceItem
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources, SourceText
from demiurge.registry.pack.text import Passage, prose, quote, words

__all__ = [
    "NamedFile",
    "distinct",
    "excerpt_fields",
    "passage_evidence",
    "plain_text",
    "read_files",
    "require_paths",
    "word_count",
]


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a call names: the `source`, or the `error` if it could not be read."""

    path: str
    source: SourceText | None
    error: GatherError | None = None

    def error_json(self) -> dict[str, Any]:
        """Returns the entry of a file that could not be read."""
        return {"path": self.path, **(self.error.to_json() if self.error else {})}


def require_paths(paths: Sequence[str], fewest: int, most: int) -> tuple[str, ...]:
    """Returns the paths without a leading `./`. Raises GatherError (`invalid_args`) for too few or too many, and for a
    file that is named twice."""
    plain = tuple(path.strip().removeprefix("./") for path in paths)
    if not fewest <= len(plain) <= most:
        raise GatherError(f"Name {fewest} to {most} files; this call names {len(plain)}.")
    twice = sorted({path for path in plain if plain.count(path) > 1})
    if twice:
        raise GatherError(f"Name each file once; this call names {twice[0]} more than once.")
    return plain


async def read_files(paths: Iterable[str], sources: Sources) -> list[NamedFile]:
    """Returns all files in the order of the call, also those that could not be read. Raises GatherError
    (`unreadable`) if none could."""
    found = [await _read(path, sources) for path in paths]
    if all(file.source is None for file in found):
        problems = " ".join(f"{file.path}: {file.error.message}" for file in found if file.error)
        raise GatherError(f"None of the files could be read. {problems}", code="unreadable")
    return found


async def _read(path: str, sources: Sources) -> NamedFile:
    try:
        return NamedFile(path, await sources.text(path))
    except GatherError as error:
        return NamedFile(path, None, error)


def plain_text(source: SourceText) -> str:
    """Returns the text of a file with line feeds alone at the ends of its lines."""
    return "\n".join(source.lines)


def word_count(text: str) -> int:
    """Returns the number of words of the prose; headings do not count."""
    return len(words(prose(text)))


def passage_evidence(source: SourceText, passage: Passage) -> EvidenceItem:
    """Returns the evidence for a passage of a file: its lines, and its first characters as the quote."""
    return EvidenceItem(
        source.path, passage.first_line, passage.last_line, quote(passage.text, MAX_QUOTE), source.sha256
    )


def excerpt_fields(name: str, passage: Passage) -> dict[str, Any]:
    """Returns a passage as two fields of a result: its text, and its first and last line."""
    return {name: passage.text, f"{name}_lines": [passage.first_line, passage.last_line]}


def distinct(items: Iterable[EvidenceItem]) -> list[EvidenceItem]:
    """Returns the items without repetitions, in their order. An item without a quote says nothing and is left out."""
    return list(dict.fromkeys(item for item in items if item.quote))
