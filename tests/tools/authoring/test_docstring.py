"""The texts of a docstring: the first paragraph, what a model reads after it, and the description of each parameter."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from demiurge.tools import PromptValidationError, Tool, ToolPolicy, ToolRunner, tool
from demiurge.tools.authoring.docstring import Docstring, read_docstring

GOOGLE = """Finds parts.

    Use it for whole words,
    not for beginnings.

    - one word per call
    - no wildcards

    Args:
        word (str, optional): A word or
            its plural.

            Not a name.
        limit (dict[str, tuple(int)]): How many:
            - 1: the best
            - 2: two
        *others: More words.

    Returns:
        The names.

    Raises:
        ValueError: If there is no catalog.

    Examples:
        >>> find_parts("bolt")
        ['hex bolt']

    Note:
        Slow.
    """

NUMPY = """Finds parts.

    Use it for whole words,
    not for beginnings.

    Parameters
    ----------
    word : str
        A word or
        its plural.

        Not a name.
    low, high : int, optional
        Limits.
    *others
        More words.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    ValueError
        If there is no catalog.

    Examples
    --------
    >>> find_parts("bolt")
    ['hex bolt']

    Notes
    -----
    Slow.
    """

SPHINX = """Finds parts.

    Use it for whole words,
    not for beginnings.

    :param word: A word or
        its plural.

        Not a name.
    :type word: str
    :param dict[str, int] limit: How many,
    at most
    :param others: More words.
    :returns: The names.
    :rtype: list[str]
    :raises ValueError: If there is no catalog.

    Slow.
    """


def read(doc: str) -> Docstring:
    return read_docstring(inspect.cleandoc(doc))


WORDS = {"word": "A word or its plural.\n\nNot a name.", "others": "More words."}
USE = "Use it for whole words,\nnot for beginnings.\n\n"


@pytest.mark.parametrize(
    ("doc", "details", "parameters"),
    [
        (
            GOOGLE,
            f"{USE}- one word per call\n- no wildcards\n\nReturns:\n    The names.\n\nNote:\n    Slow.",
            {**WORDS, "limit": "How many:\n- 1: the best\n- 2: two"},
        ),
        (
            NUMPY,
            f"{USE}Returns\n-------\nlist of str\n    The names.\n\nNotes\n-----\nSlow.",
            {**WORDS, "low": "Limits.", "high": "Limits."},
        ),
        (SPHINX, f"{USE}Returns: The names.\n\nSlow.", {**WORDS, "limit": "How many, at most"}),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_a_docstring_of_each_style_is_read(doc: str, details: str, parameters: dict[str, str]) -> None:
    assert read(doc) == Docstring("Finds parts.", details, parameters)


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("", ("", "", {})),
        ("  \n ", ("", "", {})),
        ("Finds\n    parts.", ("Finds parts.", "", {})),
        ("Finds parts.\r\n\r\nBy word.\r\n", ("Finds parts.", "By word.", {})),
        ("Finds parts.\n    Args:\n        word: One.\n    By word.", ("Finds parts.", "By word.", {"word": "One."})),
        ("Args:\n        word: One.\n    ", ("", "", {"word": "One."})),
        (
            "Finds parts.\n\n    @param word: One.\n    @return: Names.",
            ("Finds parts.", "Returns: Names.", {"word": "One."}),
        ),
        ("Finds parts.\n\n    :param word:\n    :see: there", ("Finds parts.", ":see: there", {})),
        ("Finds parts.\n\n    >>> find()\n    1\n    :param word: One.", ("Finds parts.", "", {"word": "One."})),
        (
            "Finds parts.\n\n    Example::\n\n        author:me is:open\n    ",
            ("Finds parts.", "Example::\n\n    author:me is:open", {}),
        ),
        (
            "Finds parts.\n\n    Parameters\n    ----------\n    word : str\n        One.\n\n    Plain text.",
            ("Finds parts.", "Plain text.", {"word": "One."}),
        ),
    ],
)
def test_a_docstring_of_another_form_is_read(doc: str, expected: tuple[str, str, dict[str, str]]) -> None:
    assert read(doc) == expected


@pytest.mark.parametrize(
    "text",
    [
        "```\nArgs:\n    word: code\n```",
        "Parameters:\nnot indented",
        "The arguments: a word.",
        ":class:`Part` is returned.",
        "Key: value\n\nAnother: value",
        "A rule\n---\n\nText.",
        "Steps:\n    1. one\n    2. two",
        "    Args:\n        word: code in a block",
    ],
)
def test_text_that_only_looks_like_a_section_stays_in_the_details(text: str) -> None:
    assert read_docstring(f"Finds parts.\n\nFirst.\n\n{text}") == ("Finds parts.", f"First.\n\n{text}", {})


@given(st.text(), st.text())
def test_any_text_is_read_and_nothing_is_made_up(one: str, two: str) -> None:
    found = read_docstring(f"{one}\n\n{two}")
    given_letters = set(one + two)
    for text in (found.summary, found.details, *found.parameters, *found.parameters.values()):
        assert set(text) <= given_letters | set(" \nReturns:")
    assert "\n" not in found.summary


LINES = [
    "Args:",
    "    n: One.",
    "Parameters",
    "---",
    ":param n: One.",
    "Raises:",
    "",
    "Text.",
    ">>> x",
    "```",
    "n : int",
]


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_sections_in_any_order_are_read(lines: list[str]) -> None:
    found = read_docstring("Finds parts.\n\n" + "\n".join(lines))
    assert found.summary == "Finds parts."
    assert found.details == found.details.strip()
    assert "\n\n\n" not in found.details


WORD = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


@given(WORD, st.lists(WORD, min_size=1, max_size=5), st.dictionaries(WORD, WORD, max_size=4), st.integers(0, 2))
def test_a_docstring_is_read_as_it_was_written(
    summary: str, paragraphs: list[str], parameters: dict[str, str], style: int
) -> None:
    parts = [
        "Args:\n" + "\n".join(f"    {name}: {text}" for name, text in parameters.items()),
        "Parameters\n----------\n" + "\n".join(f"{name} : int\n    {text}" for name, text in parameters.items()),
        "\n".join(f":param {name}: {text}" for name, text in parameters.items()),
    ]
    doc = "\n\n".join([summary, *paragraphs, *([parts[style]] if parameters else [])])
    assert read_docstring(doc) == (summary, "\n\n".join(paragraphs), parameters)


def find_parts(
    word: str, limit: Annotated[int, "How many."] = 3, low: Annotated[int, Field(description="Least.")] = 0
) -> list[str]:
    """Finds parts.

    By a word of their name.

    Args:
        word: One word.
        low: Not this text.
    """
    return [word][:limit]


def test_a_tool_takes_description_details_and_parameters_from_the_docstring() -> None:
    spec = tool(find_parts).spec
    assert (spec.description, spec.details) == ("Finds parts.", "By a word of their name.")
    found = {name: schema["description"] for name, schema in spec.input_schema["properties"].items()}
    assert found == {"limit": "How many.", "low": "Least.", "word": "One word."}


AT_LEAST_ONE: Any = Field(2, ge=1, description="At least one.")
NONE_YET: Any = Field(default_factory=list)
ONE: Any = Field(description="One.")


def by_default(a: int = AT_LEAST_ONE, b: list[int] = NONE_YET) -> int:
    """Adds up.

    Args:
        b: More.
    """
    b.append(a)
    return sum(b)


def test_a_field_of_pydantic_as_a_default_gives_its_rules_its_text_and_its_default() -> None:
    made = tool(by_default)
    assert made.spec.input_schema["properties"] == {
        "a": {"description": "At least one.", "minimum": 1, "type": "integer"},
        "b": {"description": "More.", "items": {"type": "integer"}, "type": "array"},
    }
    runner = ToolRunner([made], policy=ToolPolicy((made.name,)))
    assert [runner.exec_sync("by_default", "{}").content for _ in range(2)] == ["2", "2"]
    assert runner.exec_sync("by_default", {"a": 3, "b": [1]}).content == "4"
    assert runner.exec_sync("by_default", {"a": 0}).error_code == "validation"


def test_a_field_of_pydantic_without_a_default_is_required() -> None:
    def needed(a: int = ONE) -> int:
        """Returns it."""
        return a

    assert tool(needed).spec.input_schema["required"] == ["a"]


def test_a_description_that_is_given_replaces_the_text_of_the_docstring() -> None:
    assert Tool.wrap(find_parts, description="Finds.").spec.model_description == "Finds."
    assert Tool.wrap(find_parts, details="").spec.model_description == "Finds parts."
    assert Tool.wrap(find_parts, details="More.").spec.model_description == "Finds parts.\n\nMore."


def documented(doc: str) -> Any:
    def handler(a: int) -> int:
        return a

    handler.__doc__ = doc
    return handler


@pytest.mark.parametrize(
    ("doc", "field", "message"),
    [
        (
            "word " * 47,
            "description",
            "tool 'handler': the first paragraph of the docstring has 234 characters, the limit is 200: shorten it "
            "(the rest of the docstring may have 2,000), or pass description=",
        ),
        (
            "Finds.\n\n" + "x" * 2001,
            "details",
            "tool 'handler': the docstring after its first paragraph has 2,001 characters, the limit is 2,000: shorten "
            'it, or pass details= ("" for none)',
        ),
        ("", "description", "tool 'handler': write a docstring or pass description="),
        ("Args:\n    a: One.", "description", "tool 'handler': write a docstring or pass description="),
        (
            "Fin\u202eds.",
            "description",
            "tool 'handler': the first paragraph of the docstring has the invisible character U+202E at position 4: "
            "take it out",
        ),
        (
            "Finds.\n\nMore\u2028text.",
            "details",
            "tool 'handler': the docstring after its first paragraph has the invisible character U+2028 at position "
            "5: take it out",
        ),
    ],
)
def test_a_docstring_that_cannot_be_used_is_refused_with_its_length_and_what_to_do(
    doc: str, field: str, message: str
) -> None:
    with pytest.raises(PromptValidationError) as caught:
        tool(documented(doc))
    assert str(caught.value) == message
    assert caught.value.placeholder == field


def test_a_docstring_at_the_limits_is_taken() -> None:
    spec = tool(documented("s" * 200 + "\n\n" + "d" * 2000)).spec
    assert (len(spec.description), len(spec.details)) == (200, 2000)


@pytest.mark.parametrize("line", ["a(", "a) ", ":param ", "Args:", " ", "---", "a, ", ">>> ", "*", "    x: "])
def test_a_huge_docstring_takes_no_longer_than_its_length(line: str) -> None:
    """A pattern that backtracks, or a search that starts again at each line, would run for minutes."""
    assert len(read_docstring("Finds.\n\n" + line * 100_000).summary) == 6
    assert len(read_docstring("Finds.\n\n" + f"{line}\n" * 50_000).summary) == 6
