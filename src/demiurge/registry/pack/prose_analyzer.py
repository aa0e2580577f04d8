"""`prose_analyzer`: counts of a scene's prose, such as the lengths of sentences, with the passages behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isqrt
from typing import Any, Final, Literal

from demiurge.registry.pack.lexicon import word_set
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.reading import distinct, passage_evidence, plain_text, word_count
from demiurge.registry.pack.result import Gathered, dry_run_of
from demiurge.registry.pack.sources import Sources, SourceText
from demiurge.registry.pack.story import story
from demiurge.registry.pack.text import (
    Passage,
    dialogue_ratio,
    excerpt_first,
    letters,
    paragraphs,
    prose,
    prose_lines,
    quote,
    rounded,
    sentences,
    terms,
    words,
)
from demiurge.tools.execution.worker import in_thread

__all__ = ["AnalyzeProse", "adverbs", "gather"]

_MAX_CONTENT: Final = 800
_MAX_REPEATED: Final = 10
_FEWEST_REPEATS: Final = 3
_MAX_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class AnalyzeProse:
    scene_path: str = field(metadata={"description": "Path of the scene's file."})
    focus: Literal["pacing", "voice", "rhythm", "all"] = field(
        default="all", metadata={"description": "Measures to compute."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: AnalyzeProse, sources: Sources) -> Gathered:
    """Returns the counts that the focus asks for. Headings are not prose; averages are rounded half up."""
    if params.dry_run:
        return dry_run_of(params)
    source = await sources.text(params.scene_path)
    found: Gathered = await in_thread(partial(_measured, source, params.focus, sources))
    return found


def _measured(source: SourceText, focus: str, sources: Sources) -> Gathered:
    """Returns what was counted. A long scene takes a second, so it runs in a thread and stops no other call."""
    text = plain_text(source)
    found = sentences(text)
    content = excerpt_first(text, _MAX_CONTENT)
    value: dict[str, Any] = {
        "scene_path": source.path,
        "word_count": word_count(text),
        "sentence_count": len(found),
        "paragraph_count": len(paragraphs(text)),
    }
    quoted: list[Passage] = [content]
    if focus in ("pacing", "rhythm", "all") and found:
        longest, shortest = max(found, key=_length), min(found, key=_length)
        quoted += [longest, shortest]
        value |= {
            **_length_fields([_length(sentence) for sentence in found]),
            "longest_sentence": _described(longest),
            "shortest_sentence": _described(shortest),
        }
    if focus in ("voice", "all"):
        value |= {"dialogue_ratio": dialogue_ratio(text), "pov_signals": _pronouns(text)}
    if focus in ("rhythm", "all"):
        value |= {"adverb_count": len(adverbs(prose(text))), "repeated_words": _repeated(text)}
    value |= {
        "content": content.text,
        "truncated": len(content.text) < len(text.strip()),
        "total_chars": len(text),
    }
    return Gathered(value, distinct([sources.whole(source), *(passage_evidence(source, one) for one in quoted)]))


def adverbs(text: str) -> list[str]:
    """Returns the words that end with `ly`, in lower case, without those that are known to be no adverbs."""
    return [word for word in letters(text) if len(word) > 3 and word.endswith("ly") and word not in _no_adverbs()]


def _no_adverbs() -> frozenset[str]:
    return word_set("ly_exceptions")


def _length(sentence: Passage) -> int:
    return len(words(sentence.text))


def _length_fields(lengths: Sequence[int]) -> dict[str, Any]:
    """Returns the mean and the population's standard deviation of the lengths, in words with one decimal."""
    count, total = len(lengths), sum(lengths)
    spread = count * sum(length * length for length in lengths) - total * total
    tenths = (isqrt(400 * spread // (count * count)) + 1) // 2
    return {"avg_sentence_length": rounded(total, count, 1), "sentence_length_stdev": tenths / 10}


def _described(sentence: Passage) -> dict[str, Any]:
    return {"length": _length(sentence), "text": quote(sentence.text), "line": sentence.first_line}


def _pronouns(text: str) -> dict[str, int]:
    counts = Counter(letters(prose(text)))
    return {person: sum(counts[word] for word in listed) for person, listed in story("words")["pronouns"].items()}


def _repeated(text: str) -> list[dict[str, Any]]:
    """Returns the words that are used most, with the first lines on which they stand."""
    ranked = sorted(terms(text).items(), key=lambda entry: (-entry[1], entry[0]))
    chosen = [(word, count) for word, count in ranked if count >= _FEWEST_REPEATS][:_MAX_REPEATED]
    at: dict[str, list[int]] = {word: [] for word, _ in chosen}
    for number, line in prose_lines(text):
        for word in at.keys() & set(letters(line)):
            at[word].append(number)
    return [{"word": word, "count": count, "lines": at[word][:_MAX_LINES]} for word, count in chosen]
