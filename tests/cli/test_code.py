"""The Python modules of `--tools`: which of their functions are tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from demiurge.cli.code import load_code
from demiurge.errors import InvalidValue
from demiurge.tools import Tool

FUNCTIONS = """
from json import dumps
from demiurge import tool

def helper(text: str) -> str:
    '''Helps.'''
    return text

@tool
def marked(text: str) -> str:
    '''Is marked.'''
    return text
"""


def named(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> list[str]:
    """Returns the names of the tools of a module with this code."""
    monkeypatch.setattr("sys.path", [str(folder)])
    (folder / f"{name}.py").write_text(code)
    return [entry.name for entry in load_code([name], [folder]).tools if isinstance(entry, Tool)]


def test_functions_are_tools_only_if_the_module_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(tmp_path, monkeypatch, "code_unlisted", FUNCTIONS) == ["marked"]
    assert named(tmp_path, monkeypatch, "code_exported", FUNCTIONS + "__all__ = ['helper']") == ["marked"]
    assert named(tmp_path, monkeypatch, "code_listed", FUNCTIONS + "TOOLS = [helper, marked]") == ["helper", "marked"]


@pytest.mark.parametrize(
    ("name", "listed", "message"),
    [
        (
            "code_wordless",
            "TOOLS = [lambda n: n]",
            "TOOLS of the module code_wordless: <lambda>: the type of parameter",
        ),
        ("code_number", "TOOLS = [3]", "TOOLS of the module code_number: tools are Tools or functions, not int"),
        ("code_class", "TOOLS = [str]", "tools are Tools or functions, not str"),
        ("code_empty", "def helper(): pass", "put @tool before a function, or write TOOLS = [function]"),
    ],
)
def test_an_entry_that_is_no_tool_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, listed: str, message: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        named(tmp_path, monkeypatch, name, listed)
    assert message in caught.value.message
