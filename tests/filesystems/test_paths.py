"""Which paths there are, and which tricks are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.filesystems.paths import TEMP_PREFIX, above, file_path, is_name, parent, tree_path
from demiurge.tools.errors import ToolUserError

TRICKS = [
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "/etc/passwd",
    "//x",
    "a//b",
    "a/./b",
    "a\\b",
    "..\\x",
    "C:\\x",
    "a\x00b",
    "a\nb",
    "a\tb",
    "\x7f",
    "a\u202eb",  # turns the rest around
    "a\u200bb",  # has no width
    "\ufeffa",
    "\uff0e\uff0e/x",  # fullwidth dots
    "\u2024\u2024",  # one dot leaders
    "\u2025",  # a two dot leader
    "a\uff0fb",  # a fullwidth slash
    "a\uff3cb",
    "\ud800",
    "x" * 256,
    "é" * 128,
    "/".join("a" * 65),
    "a/" * 600 + "a",
    f"{TEMP_PREFIX}00",
]


@pytest.mark.parametrize("path", TRICKS)
def test_a_trick_is_no_path(path: str) -> None:
    for check in (tree_path, file_path):
        with pytest.raises(ToolUserError):
            check(path)


@pytest.mark.parametrize(
    "path", ["a", "a/b.txt", ".hidden", "...", "a b", "Größe.md", "検索/x", "a~", "-rf", "$HOME", "*", "x" * 255]
)
def test_an_ordinary_path_stays_as_it_is(path: str) -> None:
    assert (tree_path(path), file_path(path)) == (path, path)


@pytest.mark.parametrize(("said", "meant"), [("", ""), (".", ""), ("/", ""), ("./", ""), ("./docs/", "docs")])
def test_tree_path_accepts_the_spellings_of_a_folder_that_models_use(said: str, meant: str) -> None:
    assert tree_path(said) == meant


def test_the_root_is_no_file() -> None:
    with pytest.raises(ToolUserError):
        file_path(".")


@given(st.text())
def test_a_path_is_refused_or_names_that_lead_down(text: str) -> None:
    try:
        path = tree_path(text)
    except ToolUserError:
        return
    assert all(is_name(name) and name not in (".", "..") for name in path.split("/") if path)
    assert not path.startswith("/")
    assert "\\" not in path
    assert "\0" not in path


def test_above_and_parent_return_the_folders_of_a_path() -> None:
    assert above("a/b/c") == ["a", "a/b"]
    assert above("a") == []
    assert (parent("a/b"), parent("a")) == ("a", "")
