"""`line_editor`: remarks about single lines of prose. It points at words and sentences and rewrites none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from demiurge.registry.evidence import MAX_QUOTE, EvidenceItem
from demiurge.registry.pack.lexicon import word_pattern, word_set
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.prose_analyzer import adverbs
from demiurge.registry.pack.reading import distinct, word_count
from demiurge.registry.pack.result import Gathered, GatherError, dry_run_of
from demiurge.registry.pack.sources import Sources, SourceText, split_lines
from demiurge.registry.pack.story import story
from demiurge.registry.pack.text import excerpt_first, letters, prose_lines, quote, sentences, terms, words
from demiurge.tools.execution.worker import in_thread

__all__ = ["EditLines", "gather"]

_MAX_TEXT: Final = 20_000
_MAX_LINE_NUMBER: Final = 10**9
_MAX_EDITS: Final = 100
_MAX_EXCERPT: Final = 900
_LONG_SENTENCE: Final = 30
_MAX_LONG: Final = 6
_FEWEST_REPEATS: Final = 4
_MAX_REPEATED: Final = 6
_DOUBLE_SPACE = re.compile(r"(?<=\S) {2,}(?=\S)")


@dataclass(frozen=True, slots=True)
class EditLines:
    file_path: str | None = field(default=None, metadata={"description": "Path of the file to look at."})
    text: str | None = field(default=None, metadata={"description": "Text to look at, in place of a file."})
    start_line: Annotated[int, Field(ge=1, le=_MAX_LINE_NUMBER)] = field(
        default=1, metadata={"description": "First line, from 1."}
    )
    end_line: Annotated[int, Field(ge=1, le=_MAX_LINE_NUMBER)] | None = field(
        default=None, metadata={"description": "Last line. Left out: the last line of the text."}
    )
    max_edits: Annotated[int, Field(ge=1, le=_MAX_EDITS)] = field(
        default=12, metadata={"description": "The most findings to return."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: EditLines, sources: Sources) -> Gathered:
    """Returns the findings in the order whitespace, long sentences, filler words, adverbs, repetitions, each with its
    line in the file or text. A text goes before a file."""
    _require_fitting(params)
    if params.dry_run:
        return dry_run_of(params)
    source = await sources.text(params.file_path or "") if params.text is None else None
    lines = source.lines if source else split_lines(params.text or "")
    if params.start_line > max(len(lines), 1):
        raise GatherError(f"The text has {len(lines)} lines, so it has no line {params.start_line}.")
    end = min(params.end_line or len(lines), len(lines))
    text = "\n".join(lines[params.start_line - 1 : end])
    below = params.start_line - 1
    rows = await in_thread(partial(_findings, text))  # of a long file it takes a second
    found = [{**row, "line": row["line"] + below} for row in rows]
    shown = found[: params.max_edits]
    excerpt = excerpt_first(text, _MAX_EXCERPT)
    value = {
        "source": source.path if source else "text",
        "start_line": params.start_line,
        "end_line": max(end, params.start_line),
        "word_count": word_count(text),
        "excerpt": excerpt.text,
        "truncated": len(excerpt.text) < len(text.strip()),
        "findings": shown,
        "total_findings": len(found),
    }
    if source is None:
        return Gathered(value)
    quoted = [
        (excerpt.first_line + below, quote(excerpt.text, MAX_QUOTE)),
        *((row["line"], row["original"]) for row in shown),
    ]
    return Gathered(value, _evidence(source, sources.evidence(source, params.start_line, end), quoted))


def _require_fitting(params: EditLines) -> None:
    if params.text is None and params.file_path is None:
        raise GatherError("Give a file_path or a text.")
    if params.text is not None and not 1 <= len(params.text) <= _MAX_TEXT:
        raise GatherError(f"A text has 1 to {_MAX_TEXT} characters. Name the file of a longer one.")
    if params.start_line < 1 or (params.end_line is not None and params.end_line < params.start_line):
        raise GatherError("Lines are counted from 1, and the last one is not before the first one.")
    if not 1 <= params.max_edits <= _MAX_EDITS:
        raise GatherError(f"max_edits is 1 to {_MAX_EDITS}.")


def _evidence(source: SourceText, lines: EvidenceItem, quoted: list[tuple[int, str]]) -> list[EvidenceItem]:
    """Returns the evidence for the lines that were looked at, and for each quote with its first line."""
    return distinct(
        [
            lines,
            *(EvidenceItem(source.path, line, line + text.count("\n"), text, source.sha256) for line, text in quoted),
        ]
    )


def _findings(text: str) -> list[dict[str, Any]]:
    suggestions = story("line_edits")
    numbered = prose_lines(text)
    found = [*_whitespace(numbered), *_long_sentences(text), *_fillers(numbered), *_adverbs(numbered)]
    return [{**row, "suggestion": suggestions[row["kind"]]} for row in [*found, *_repetitions(text, numbered)]]


def _whitespace(numbered: list[tuple[int, str]]) -> list[dict[str, Any]]:
    """Returns one finding for all double spaces between words: the first, and how many there are."""
    hits = [(number, line, match) for number, line in numbered for match in _DOUBLE_SPACE.finditer(line)]
    if not hits:
        return []
    number, line, match = hits[0]
    return [{"kind": "whitespace", "original": _around(line, match), "count": len(hits), "line": number}]


def _long_sentences(text: str) -> Iterator[dict[str, Any]]:
    lengths = ((sentence, len(words(sentence.text))) for sentence in sentences(text))
    long = [(sentence, length) for sentence, length in lengths if length >= _LONG_SENTENCE]
    for sentence, length in long[:_MAX_LONG]:
        original = quote(sentence.text, MAX_QUOTE)
        yield {"kind": "long_sentence", "original": original, "count": length, "line": sentence.first_line}


def _fillers(numbered: list[tuple[int, str]]) -> list[dict[str, Any]]:
    hits = [
        (match[0].lower(), number, line, match)
        for number, line in numbered
        for match in word_pattern("fillers").finditer(line)
    ]
    order = {word: at for at, word in enumerate(story("words")["fillers"])}
    return sorted(_once("filler_word", hits), key=lambda row: order[row["word"]])


def _adverbs(numbered: list[tuple[int, str]]) -> list[dict[str, Any]]:
    """Returns each adverb once. A filler word is a finding already."""
    hits = []
    for number, line in numbered:
        wanted = set(adverbs(line)) - word_set("fillers")
        hits += [
            (match[0].lower(), number, line, match)
            for match in re.finditer(r"[^\W\d_]+", line)
            if match[0].lower() in wanted
        ]
    return _once("adverb", hits)


def _once(kind: str, hits: list[tuple[str, int, str, re.Match[str]]]) -> list[dict[str, Any]]:
    """Returns one finding for each word: its first use, and how many uses there are."""
    found: dict[str, dict[str, Any]] = {}
    for word, number, line, match in hits:
        if word in found:
            found[word]["count"] += 1
        else:
            found[word] = {
                "kind": kind,
                "word": word,
                "original": _around(line, match),
                "count": 1,
                "line": number,
            }
    return list(found.values())


def _repetitions(text: str, numbered: list[tuple[int, str]]) -> Iterator[dict[str, Any]]:
    ranked = sorted(terms(text).items(), key=lambda entry: (-entry[1], entry[0]))
    for word, count in [entry for entry in ranked if entry[1] >= _FEWEST_REPEATS][:_MAX_REPEATED]:
        number, line = next((number, line) for number, line in numbered if word in letters(line))
        match = re.search(re.escape(word), line, re.IGNORECASE)
        original = _around(line, match) if match else quote(line)
        yield {"kind": "repetition", "word": word, "original": original, "count": count, "line": number}


def _around(line: str, match: re.Match[str]) -> str:
    """Returns a verbatim piece of a line that holds a match."""
    early = max(0, match.start() - 60)
    begin = line.rfind(" ", early, max(early, match.start() - 30)) + 1 or early
    return quote(line[begin : match.end() + 60])
