"""Globs match what they say, regular expressions come to an end, and what can't be used is explained."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.filesystems.patterns import glob_root, path_glob, regular_expression
from demiurge.tools.errors import ToolUserError


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc", "a.py\n"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.md"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "other/a"]),
        ("src/**/x", ["src/x", "src/a/b/x"], ["src/ax", "x"]),
        ("a?c", ["abc", "aéc"], ["ac", "a/c"]),
        ("[a-c]x", ["bx"], ["dx", "/x"]),
        ("[!a-c]x", ["dx"], ["bx", "/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[+-9]x", ["5x"], ["/x"]),
        ("[]]x", ["]x"], ["x"]),
        ("[ab", ["[ab"], ["a"]),
        ("[a&&b]", ["a", "&"], ["c"]),
        ("a.b+(c)|{d}$ ^-#~", ["a.b+(c)|{d}$ ^-#~"], ["aXb+(c)|{d}$ ^-#~"]),
        ("a**b", ["axxb"], ["a/b"]),
    ],
)
def test_a_glob(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = path_glob(pattern, 100)
    assert [path for path in [*yes, *no] if matches(path)] == yes


@given(st.text(alphabet="ab./+(\\$ é", min_size=1).filter(lambda name: "\\" not in name))
def test_a_glob_without_signs_is_the_path_itself(path: str) -> None:
    try:
        matches = path_glob(path, 100)
    except ToolUserError:
        return
    assert matches(path)
    assert not matches(f"{path}x")


@pytest.mark.parametrize("pattern", ["", "../*", "/etc/*", "a//b", "a\\*", "*/../x", "[z-a]", "x" * 101, "\ud800*"])
def test_a_glob_that_can_not_be(pattern: str) -> None:
    with pytest.raises(ToolUserError):
        path_glob(pattern, 100)


def test_glob_root_returns_the_folder_that_a_glob_begins_in() -> None:
    assert glob_root("src/app/**/*.py") == "src/app"
    assert glob_root("*/a") == ""
    assert glob_root("a") == ""


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "unclosed group"),
        ("(?=a)b", "look-around"),
        (r"(a)\1", "backreferences"),
        ("x{", "counted repetition"),
        (r"(\w{1,90}){1,90}", "too large"),
        ("", "empty"),
        ("x" * 101, "at most 100"),
        ("\udcff", "half a character"),
    ],
)
def test_an_expression_that_can_not_be_used_says_why(pattern: str, reason: str) -> None:
    with pytest.raises(ToolUserError, match=reason):
        regular_expression(pattern, 100)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"^(a|a)*$", r"^(a|aa)+$", r"(.*a){20}$", r"(x+x+)+y"])
def test_a_pattern_with_catastrophic_backtracking_ends(pattern: str) -> None:
    assert regular_expression(pattern, 100)("a" * 5_000 + "!") is False


@pytest.mark.parametrize("pattern", ["*a" * 40, "**/" * 40 + "x", "[a-z]*" * 15 + "?b"])
def test_a_glob_comes_to_an_end(pattern: str) -> None:
    assert path_glob(pattern, 1_000)("a" * 200 + "!") is False
