# ruff: noqa: RUF001
"""Sentences, names, terms and quotes of prose: exact pieces of the text, with their lines."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.registry.pack.lexicon import phrase_pattern, word_pattern
from demiurge.registry.pack.text import (
    dialogue_ratio,
    ending,
    entities,
    excerpt_first,
    excerpt_last,
    flat,
    is_heading,
    opening,
    paragraphs,
    prose,
    quote,
    rounded,
    sentences,
    terms,
    words,
)

TEXTS = st.text(
    st.sampled_from(string.ascii_letters + "éßİ0’'" + ' \t\r\n\n\n.!?"“”…#*_-()\u2028\u00a0') | st.characters(),
    max_size=400,
)


def said(text: str) -> list[str]:
    return [sentence.text for sentence in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        (
            "She had to leave. It was the last. The best. He went.",
            ["She had to leave.", "It was the last.", "The best.", "He went."],
        ),
        (
            "Dr. Vale saw St. Ives, e.g. the quay. Then he left.",
            ["Dr. Vale saw St. Ives, e.g. the quay.", "Then he left."],
        ),
        ("“Go.” he said. “Now!”", ["“Go.”", "he said.", "“Now!”"]),
        ('"Go." he said. (Really.) *No.* Yes.', ['"Go."', "he said.", "(Really.)", "*No.*", "Yes."]),
        ("Wait... what?! No.5 is 3.14 long.", ["Wait...", "what?!", "No.5 is 3.14 long."]),
        ("A line\nthat goes on. Next", ["A line\nthat goes on.", "Next"]),
        ("No stop here\n\nNew paragraph", ["No stop here", "New paragraph"]),
        ("# Title. Not prose\nOne.\n***\n- - -\nTwo.", ["One.", "Two."]),
        ("... He came. ... - !", ["... He came. ... - !"]),
        ("Hm.", ["Hm."]),
        ("Beats:\n- She leaves\n- He must - stay\n2. End", ["Beats:", "- She leaves", "- He must - stay", "2. End"]),
    ],
)
def test_a_text_is_cut_into_its_sentences(text: str, expected: list[str]) -> None:
    assert said(text) == expected


def test_a_sentence_knows_its_lines() -> None:
    found = sentences("# One\n\nFirst\nhere. Second.\n\nThird.\n")
    assert [(one.text, one.first_line, one.last_line) for one in found] == [
        ("First\nhere.", 3, 4),
        ("Second.", 4, 4),
        ("Third.", 6, 6),
    ]


@given(TEXTS)
def test_sentences_cover_the_prose(text: str) -> None:
    for sentence in sentences(text):
        assert text[sentence.start : sentence.end] == sentence.text
        assert sentence.text.strip() == sentence.text != ""
        assert 1 <= sentence.first_line <= sentence.last_line <= text.count("\n") + 1
    kept = "".join(letter for one in sentences(text) for letter in one.text if letter.isalnum())
    assert kept == "".join(letter for letter in prose(text) if letter.isalnum())


@given(TEXTS, st.integers(0, 300))
def test_quotes_and_excerpts_are_pieces_of_the_text(text: str, limit: int) -> None:
    first, last = excerpt_first(text, limit), excerpt_last(text, limit)
    for passage in (first, last, *paragraphs(text)):
        assert text[passage.start : passage.end] == passage.text
        assert passage.first_line == text.count("\n", 0, passage.start) + 1
    assert text.strip().startswith(first.text)
    assert text.strip().endswith(last.text)
    assert max(len(first.text), len(last.text), len(quote(text, limit))) <= limit
    assert text.strip().startswith(quote(text, limit))


@given(TEXTS)
def test_no_text_makes_an_analysis_fail(text: str) -> None:
    assert all(name.name and name.count >= 1 and name.line >= 1 for name in entities(text))
    assert all(len(term) >= 4 and term == term.lower() for term in terms(text))
    assert 0 <= dialogue_ratio(text) <= 1
    assert sum(len(word) for word in words(text)) == len("".join(text.split()))
    assert "\n" not in flat(text)


def test_words_stand_between_white_space() -> None:
    assert words(" It's  a\u00a0well-known\n— fact. ") == ["It's", "a", "well-known", "—", "fact."]


def test_paragraphs_stand_between_blank_lines_headings_and_separators() -> None:
    text = "# Title\nOne\ngoes on\n \t\nTwo\n***\nThree\n## Part\n\n#hashtag\n"
    assert [(one.text, one.first_line, one.last_line) for one in paragraphs(text)] == [
        ("One\ngoes on", 2, 3),
        ("Two", 5, 5),
        ("Three", 7, 7),
        ("#hashtag", 10, 10),
    ]
    assert prose(text) == "One\ngoes on\n\nTwo\n\nThree\n\n#hashtag"


@pytest.mark.parametrize(
    ("line", "expected"), [("# A", True), ("###### A", True), ("##", True), ("##A", False), ("####### A", False)]
)
def test_a_heading_has_a_space_after_its_marks(line: str, expected: bool) -> None:
    assert is_heading(line) is expected


def test_a_quote_is_a_bare_prefix() -> None:
    assert quote("  " + "x" * 130) == "x" * 120
    assert quote("ab cd", 3) == "ab"


def test_the_first_excerpt_ends_at_the_last_blank_line() -> None:
    text = "a" * 210 + "\n\n" + "b " * 80 + "\n\n" + "c" * 400
    assert excerpt_first(text, 300).text == "a" * 210
    assert excerpt_first(text, 500).text == "a" * 210 + "\n\n" + ("b " * 80).rstrip()


def test_the_first_excerpt_ends_at_a_space_if_no_blank_line_is_late_enough() -> None:
    text = "a" * 50 + "\n\n" + "word " * 200
    assert excerpt_first(text, 400).text == "a" * 50 + "\n\n" + ("word " * 69).rstrip()
    assert excerpt_first("x" * 1000, 400).text == "x" * 400
    assert excerpt_first(" short ", 400).text == "short"


def test_the_last_excerpt_begins_after_the_first_white_space() -> None:
    text = "word " * 199 + "end."
    assert excerpt_last(text, 400).text == "word " * 79 + "end."
    assert excerpt_last("x" * 1000, 400).text == "x" * 400
    assert excerpt_last("short", 400).text == "short"


def test_the_last_excerpt_begins_after_an_early_blank_line() -> None:
    text = "z" * 500 + " " + "a" * 40 + " aa\n\n" + "b " * 170 + "end"
    assert excerpt_last(text, 400).text == "b " * 170 + "end"
    late = "z" * 500 + " " + "a " * 120 + "\n\n" + "b" * 140
    assert excerpt_last(late, 400).text == "a " * 120 + "\n\n" + "b" * 140


def named(text: str) -> dict[str, int]:
    return {entity.name: entity.count for entity in entities(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tobin Vale slept.", {"Tobin Vale": 1}),
        ("Captain Mara left. Mara slept.", {"Captain Mara": 1, "Mara": 1}),
        ("Mara left. They met Mara there. Mara slept.", {"Mara": 3}),
        ("Silence fell. Nobody spoke.", {}),
        ("Suddenly Mara ran. Then the Old Mill burned.", {"Mara": 1, "Old Mill": 1}),
        ("He saw Mara, Tobin and Mara's dog.", {"Mara": 2, "Tobin": 1}),
        ("I'm here, said Ann. I'll go. He said I was.", {"Ann": 1}),
        ('He said, "Leave the boat" to Élodie.', {"Élodie": 1}),
        ("She saw Dr. Vale and the O'Brien twins of Saint-Malo.", {"Vale": 1, "O'Brien": 1, "Saint-Malo": 1}),
        ("# The Gate of Ash\nthey met at\nMarrow Gate", {"Marrow Gate": 1}),
        ("they met the Marrow\nGate", {"Marrow Gate": 1}),
        ("On Monday Tobin saw her.", {"Tobin": 1}),
    ],
)
def test_names_are_runs_of_capitalised_words(text: str, expected: dict[str, int]) -> None:
    assert named(text) == expected


def test_a_name_known_from_elsewhere_counts_at_the_start_of_a_sentence() -> None:
    assert entities("Mara left.") == []
    assert [(one.name, one.line) for one in entities("\nMara left.", known={"Mara"})] == [("Mara", 2)]


def test_terms_are_long_words_that_are_not_common() -> None:
    assert terms("# Lantern\nThe LANTERN, the lantern's light. They didn't know café.") == {
        "lantern": 2,
        "light": 1,
        "café": 1,
    }


def test_the_ratio_of_dialogue_counts_lines_of_prose() -> None:
    assert dialogue_ratio('# Ti"tl"e\n"One."\ntwo\n“Three.”\n\n"half\n') == 0.5
    assert dialogue_ratio('"a"\nb\nc') == 0.33
    assert dialogue_ratio("") == 0.0


@pytest.mark.parametrize(
    ("part", "whole", "digits", "expected"), [(1, 8, 2, 0.13), (5, 2, 0, 3.0), (25, 10, 1, 2.5), (1, 0, 1, 0.0)]
)
def test_halves_are_rounded_up(part: int, whole: int, digits: int, expected: float) -> None:
    assert rounded(part, whole, digits) == expected


def test_a_phrase_is_found_as_whole_words() -> None:
    pattern = phrase_pattern(["or else", "can't", "die"])
    text = "The soldier studied.\nHe can’t die, OR\nelse. They can't've; die's"
    assert pattern.findall(text) == ["can’t", "die", "OR\nelse"]
    assert word_pattern("stakes").search("The soldier studied the close saved-up iffy thing") is not None
    assert word_pattern("stakes").search("The soldier studied the closet, iffy") is None


def test_the_opening_and_the_ending_leave_out_the_title() -> None:
    found = opening("# The Gate\n\nShe left.\n# Two\n", 400)
    assert (found.text, found.first_line, found.last_line) == ("She left.\n# Two", 3, 4)
    assert ending("# The Gate\n\nShe left.\n", 400) == opening("# The Gate\n\nShe left.\n", 400)
    assert opening("# The Gate", 400).text == ending("# The Gate", 400).text == ""
