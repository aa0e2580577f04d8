"""Search of tools by words: BM25 over a tool's id, its description, and the names and descriptions of its arguments.

The search is pure, so the same words find the same tools in every process and at every replay.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from demiurge.tools.spec import ToolSpec

__all__ = ["MOST_FOUND", "search_tools"]

MOST_FOUND: Final = 5
"""How many tools a search finds at most."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_K1: Final = 1.2
_B: Final = 0.75
_ID_COUNTS: Final = 3
"""A word of a tool's id counts as often as so many words of its description."""
_COMMON: Final = frozenset(
    re.split(
        " ",
        "a an and any are as at be by can do for from get how i in is"
        " it me my of on or please that the this to tool tools use want what which with you",
    )
)
_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ies", "ied", "es", "ed", "s", "y", "e")
_LEAST_STEM: Final = 3


def search_tools(specs: Sequence[ToolSpec], query: str, most: int = MOST_FOUND) -> list[ToolSpec]:
    """Returns at most `most` of the tools, the best match first; of equal matches the one that comes first. A tool
    whose id, or its last part, stands in the query is the best match. A tool that shares no word is not found."""
    documents = [Counter(_words_of(spec)) for spec in specs]
    if not documents:
        return []
    named = frozenset(re.findall(r"[\w-]+", query.lower()))
    wanted = dict.fromkeys(_stems(query))
    holders = {word: sum(word in document for document in documents) for word in wanted}
    usual_length = sum(document.total() for document in documents) / len(documents)
    scores = [_score(document, wanted, holders, len(documents), usual_length) for document in documents]
    for at, spec in enumerate(specs):
        if named & {spec.name.lower(), spec.name.lower().rpartition("__")[2]}:
            scores[at] += math.inf
    order = sorted(range(len(specs)), key=lambda at: -scores[at])
    return [specs[at] for at in order[:most] if scores[at] > 0]


def _score(
    document: Counter[str], wanted: Mapping[str, None], holders: Mapping[str, int], count: int, usual_length: float
) -> float:
    length = _K1 * (1 - _B + _B * document.total() / usual_length)
    return sum(
        math.log(1 + (count - holders[word] + 0.5) / (holders[word] + 0.5)) * often * (_K1 + 1) / (often + length)
        for word in wanted
        if (often := document[word])
    )


def _words_of(spec: ToolSpec) -> Iterator[str]:
    for _ in range(_ID_COUNTS):
        yield from _stems(spec.name)
    yield from _stems(spec.model_description)
    yield from _words_of_schema(spec.input_schema)


def _words_of_schema(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yields the words of the names and descriptions of a schema's properties, not of those inside them."""
    properties = schema.get("properties")
    for name, node in properties.items() if isinstance(properties, Mapping) else ():
        yield from _stems(str(name))
        if isinstance(node, Mapping):
            yield from _stems(str(node.get("description", "")))


def _stems(text: str) -> Iterator[str]:
    """Yields the words of a text without their endings. Common words are left out."""
    for word in _WORD.findall(text):
        lower = word.lower()
        if lower not in _COMMON:
            yield _stem(lower)


def _stem(word: str) -> str:
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= _LEAST_STEM), "")
    return word.removesuffix(ending)
