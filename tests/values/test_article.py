"""Messages that name a type say `an int`, not `a int`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import demiurge
from demiurge.values.article import with_article

AFTER_AN = ("int", "object", "index", "OrderedDict", "array", "enum", "option", "Update", "undo", "Exception")
AFTER_A = ("str", "list", "UUID", "User", "Unit", "union", "URL", "utility", "dict", "One", "EuroAmount", "_Own", "")


@pytest.mark.parametrize("name", AFTER_AN)
def test_a_name_that_begins_with_a_vowels_sound_takes_an(name: str) -> None:
    assert with_article(name) == f"an {name}"


@pytest.mark.parametrize("name", AFTER_A)
def test_any_other_name_takes_a(name: str) -> None:
    assert with_article(name) == f"a {name}"


CLOSED = ("{tag} is reported", "{origin['kind']}")
"""Names from a closed set of words, none of which begins with a vowel: a chat's events, and what asks for an effect."""


def test_no_message_has_an_article_by_hand_before_a_name() -> None:
    found = [
        f"{path.name}: {text}"
        for path in Path(demiurge.__file__).parent.rglob("*.py")
        for text in re.findall(r"\b[Aa]n? (\{.*)", path.read_text("utf-8"))
        if not text.startswith(CLOSED)
    ]
    assert found == []
