"""Texts with placeholders."""

from collections import defaultdict
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.prompts.placeholders import fill, names_in, tidy


def test_a_text_is_dedented_and_stripped() -> None:
    assert tidy("\n    A\n      b\n\n    C\n  ") == "A\n  b\n\nC"


def test_names_are_told_once_and_in_order() -> None:
    assert names_in("$b ${a} $$c $b $a_1") == ("b", "a", "a_1")


@pytest.mark.parametrize(
    ("text", "line"), [("$", 1), ("a\n$ b", 2), ("${a", 1), ("$a\n\n$1", 3), ("${}", 1), ("$-", 1)]
)
def test_a_dollar_sign_that_begins_nothing_is_found_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=f"line {line}:"):
        names_in(text)


@given(st.text(), st.text())
def test_a_value_is_put_in_as_it_is(before: str, value: str) -> None:
    template = before.replace("$", "$$") + "<$x>"
    assert fill(template, {"x": value}) == f"{before}<{value}>"


@given(st.text(alphabet="$${}ab_1 \n"))
def test_fill_accepts_exactly_the_texts_that_string_template_accepts(text: str) -> None:
    try:
        names = names_in(text)
    except ValueError:
        with pytest.raises(ValueError, match="Invalid placeholder"):
            Template(text).substitute(defaultdict(int))
    else:
        assert fill(text, dict.fromkeys(names, "$$")) == Template(text).substitute(defaultdict(lambda: "$$"))
