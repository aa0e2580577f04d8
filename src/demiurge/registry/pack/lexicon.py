"""The word lists of the core tools, as sets of words and as patterns that find whole words.

The lists are data of the pack (`data/words.json`), so another pack may bring its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from demiurge.registry.pack.story import story

__all__ = ["phrase_pattern", "word_pattern", "word_set"]


@cache
def word_set(name: str) -> frozenset[str]:
    """Returns a list of the data as a set."""
    return frozenset(story("words")[name])


@cache
def word_pattern(name: str) -> re.Pattern[str]:
    """Returns the pattern that finds the words and phrases of a list of the data."""
    return phrase_pattern(story("words")[name])


def phrase_pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """Returns the pattern that finds any of the phrases as whole words, in either case. A space in a phrase stands for
    one to four characters of white space, an apostrophe for the straight and the curly one."""
    longest_first = sorted(phrases, key=lambda phrase: (-len(phrase), phrase))
    choices = "|".join(re.escape(one).replace(r"\ ", r"\s{1,4}").replace("'", "['\u2019]") for one in longest_first)
    return re.compile(rf"(?<!\w)(?<!\w['\u2019])(?:{choices})(?!\w|['\u2019]\w)", re.IGNORECASE)
