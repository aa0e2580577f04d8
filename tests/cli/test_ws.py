"""`demiurge ws`: a workspace that an agent wrote to, looked at by a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def written(demiurge: Any, provider: Any, tmp_path: Path) -> Any:
    """Three versions of the workspace `main`: a file, another, and the first one changed."""
    policy = tmp_path / "policy.toml"
    policy.write_text('allowed_tools = ["workspace__write"]\n')
    for path, text in (("notes/a.txt", "one\ntwo\n"), ("b.txt", "b"), ("notes/a.txt", "one\n2\n")):
        provider.say(
            provider.answer(provider.call("workspace__write", {"path": path, "text": text})),
            provider.answer(provider.text("Written.")),
        )
        assert demiurge("chat", "--policy", str(policy), "--message", f"Write {path}.").status == 0
    return demiurge


def test_folders_are_listed_at_any_version(written: Any) -> None:
    assert [e["path"] for e in written("--json", "ws", "ls", "main").document["entries"]] == ["b.txt", "notes"]
    assert [e["path"] for e in written("--json", "ws", "ls", "main@1").document["entries"]] == ["notes"]
    assert "notes/a.txt" in written("ws", "ls", "main/notes/").out
    assert "notes/a.txt" in written("ws", "ls", "main/notes/a.txt").out


def test_files_are_printed_at_any_version(written: Any) -> None:
    assert written("ws", "cat", "main/notes/a.txt").out == "one\n2\n"
    assert written("ws", "cat", "main@2/notes/a.txt").out == "one\ntwo\n"
    document = written("--json", "ws", "cat", "main/b.txt").document
    assert document == {"path": "b.txt", "text": "b", "size": 1}


def test_the_versions_are_listed_newest_first(written: Any) -> None:
    versions = written("--json", "ws", "log", "main").document["versions"]
    assert [version["version"] for version in versions] == [3, 2, 1]
    assert {version["owner"] for version in versions} == {"user"}
    assert written("ws", "log", "main").out.splitlines()[0].split() == ["VERSION", "WHEN", "BY"]


def test_versions_are_compared(written: Any) -> None:
    text = written("ws", "diff", "main@1").out
    assert "-two\n+2\n" in text
    assert "+++ b/b.txt" in text
    assert [c["path"] for c in written("--json", "ws", "diff", "main@1", "2").document["changes"]] == ["b.txt"]
    assert [c["path"] for c in written("--json", "ws", "diff", "main@1/notes").document["changes"]] == ["notes/a.txt"]
    assert written("ws", "diff", "main@3").out == "Nothing changed.\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("ls", "nobody"), 1, "There is no workspace nobody; there are: main."),
        (("ls", "main@9"), 1, "versions 1 to 3"),
        (("cat", "main/none.txt"), 1, "There is no none.txt in main@3"),
        (("cat", "main/notes"), 1, "is a folder"),
        (("cat", "main/../x"), 1, "A path has segments"),
        (("ls", "@3"), 2, "NAME[@VERSION]"),
        (("diff", "main"), 2, "which version"),
    ],
)
def test_what_is_not_there_is_said(written: Any, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = written("ws", *arguments)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
