"""`demiurge ws`: a workspace that an agent wrote to, looked at by a person."""

from __future__ import annotations

import json
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


def test_a_refused_edit_makes_no_workspace(written: Any) -> None:
    assert written("ws", "rm", "none/a.txt").status == 1
    assert [each["workspace"] for each in written("--json", "ws", "ls").document["workspaces"]] == ["main"]


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
        (("diff", "main"), 2, "the version"),
    ],
)
def test_a_missing_file_or_version_is_an_error(
    written: Any, arguments: tuple[str, ...], status: int, said: str
) -> None:
    done = written("ws", *arguments)
    assert (done.status, done.out) == (status, "")
    assert said in done.err


def test_a_person_writes_and_removes(written: Any, tmp_path: Path) -> None:
    (tmp_path / "c.bin").write_bytes(b"\x00\xff")
    done = written("--json", "ws", "write", "main/deep/c.bin", "@c.bin").document
    assert (done["workspace"], done["version"], done["path"]) == ("main", 4, "deep/c.bin")
    assert written("ws", "write", "main/notes/a.txt", "three\n").out == "Wrote main@5/notes/a.txt.\n"
    assert written("ws", "write", "main/d.txt", "@-", stdin=b"from stdin").status == 0
    assert written("ws", "rm", "main/b.txt").out == "Removed main@7/b.txt.\n"
    assert [e["path"] for e in written("--json", "ws", "ls", "main").document["entries"]] == ["d.txt", "deep", "notes"]
    assert written("ws", "cat", "main/d.txt").out == "from stdin"
    assert written("ws", "cat", "main@4/b.txt").out == "b"
    assert "+three" in written("ws", "diff", "main@4").out
    log = written("--json", "ws", "log", "main").document["versions"]
    assert [(v["version"], v["owner"]) for v in log[:2]] == [(7, "user"), (6, "user")]
    assert written("replay", "--check").document["ok"]
    assert written("journal", "verify").status == 0


def test_an_edit_is_journaled_with_who_made_it(demiurge: Any) -> None:
    assert demiurge("ws", "write", "plans/a.txt", "a").status == 0
    records = [json.loads(line) for line in demiurge("journal", "export").out.splitlines()]
    [edit] = [r for r in records if r["kind"] == "event" and r.get("body", {}).get("schema") == "sys/WorkspaceEvent@1"]
    assert edit["actor"] == "user"
    assert edit["body"]["value"]["$value"]["path"] == "a.txt"


def test_the_chat_reads_what_a_person_wrote(demiurge: Any, provider: Any) -> None:
    assert demiurge("ws", "write", "main/todo.txt", "buy bolts").status == 0
    provider.say(
        provider.answer(provider.call("workspace__read", {"path": "todo.txt"})),
        provider.answer(provider.text("You should buy bolts.")),
    )
    assert demiurge("chat", "--message", "What should I do?").status == 0
    assert "buy bolts" in json.dumps(provider.seen[-1])


@pytest.mark.parametrize("place", ["main@2/b.txt", "main/b.txt"])
def test_a_write_that_expects_another_version_is_a_conflict(written: Any, place: str) -> None:
    option = () if "@" in place else ("--expected-version", "2")
    for verb in (("write", place, "late"), ("rm", place)):
        done = written("--json", "ws", *verb, *option)
        assert (done.status, done.document["error"]["code"]) == (1, "version_conflict")
        assert done.document["error"]["message"] == "Workspace main is at version 3, not 2."
    assert written("ws", "cat", "main/b.txt").out == "b"
    assert written("ws", "write", "main@3/b.txt", "in time").status == 0
    assert written("ws", "write", "main/b.txt", "no", "--expected-version", "0").status == 1
    assert written("ws", "write", "new/b.txt", "yes", "--expected-version", "0").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("write", "main/../x", "t"), 1, "A path has segments"),
        (("write", "main/notes", "t"), 1, "notes is a folder."),
        (("write", "main/b.txt/c", "t"), 1, "b.txt is a file"),
        (("write", "main", "t"), 2, "the file"),
        (("write", "main@1/b.txt", "t", "--expected-version", "2"), 2, "The place says version 1"),
        (("write", "main/x", "@none"), 1, "There is no file none"),
        (("rm", "main/none.txt"), 1, "There is no none.txt."),
        (("rm", "main/notes"), 1, "not empty"),
        (("rm", "main/"), 2, "the file"),
    ],
)
def test_an_edit_that_can_not_be_is_said_and_changes_nothing(
    written: Any, arguments: tuple[str, ...], status: int, said: str
) -> None:
    done = written("ws", *arguments)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert written("--json", "ws", "log", "main").document["versions"][0]["version"] == 3


def test_a_file_that_is_too_large_is_refused(demiurge: Any) -> None:
    done = demiurge("--json", "ws", "write", "main/big", "@-", stdin=bytes((16 << 20) + 1))
    assert (done.status, done.document["error"]["code"]) == (1, "too_large")


def test_a_commit_of_a_tree_is_not_taken_from_a_person(demiurge: Any) -> None:
    """It could name any blob of the world, and so show it."""
    root = demiurge("blob", "put", "x").document["hash"]
    commit = {"workspace": "main", "expected_head": None, "root_hash": root, "owner": "user"}
    demiurge("event", "send", "sys/WorkspaceCommit@1", json.dumps(commit))
    assert "no cell" in demiurge("state", "get", "sys/Workspace@1", "--key", "main").err


def test_the_workspaces_are_listed(written: Any) -> None:
    assert written("ws", "write", "other/a.txt", "a").status == 0
    assert written("--json", "ws", "ls").document == {
        "workspaces": [{"workspace": "main", "version": 3}, {"workspace": "other", "version": 1}]
    }
    assert written("ws", "ls").out.splitlines()[0].split() == ["WORKSPACE", "VERSION", "WHEN"]


def test_a_world_without_workspaces_says_so(demiurge: Any) -> None:
    assert demiurge("init").status == 0
    assert demiurge("ws", "ls").out == "There is no workspace yet.\n"


@pytest.mark.parametrize("name", ["..", ".", "...", "a b", "bad!name", "x" * 257, "caf\u00e9"])
def test_a_workspace_gets_no_name_that_is_none(demiurge: Any, name: str) -> None:
    for words in (("write", f"{name}/x", "hi"), ("rm", f"{name}/x")):
        done = demiurge("ws", *words)
        assert (done.status, done.out) == (1, "")
        assert "invalid workspace name" in done.err
    edit = {"workspace": name, "expected_head": None, "path": "x", "bytes_ref": None}
    sent = demiurge("--json", "event", "send", "sys/WorkspaceEdit@1", json.dumps(edit))
    code = "invalid_workspace_name" if len(name) <= 256 else "invalid_value"
    assert (sent.status, sent.document["error"]["code"]) == (1, code)
    assert demiurge("ws", "ls").out == "There is no workspace yet.\n"
    assert demiurge("ws", "write", f"{'x' * 256}/x", "hi").status == 0
    assert demiurge("ws", "write", "main/a/.../x", "hi").status == 1


def test_a_workspace_that_has_such_a_name_from_before_can_be_read(
    demiurge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        for module in ("demiurge.world.trees", "demiurge.world.host.host"):
            before.setattr(f"{module}.check_new_name", lambda _name: None)
        before.setattr("demiurge.world.trees.check_new_path", lambda _path: None)
        assert demiurge("ws", "write", "my notes/.../x", "hi").status == 0
    assert demiurge("ws", "cat", "my notes/.../x").out == "hi"
    assert "my notes" in demiurge("ws", "ls").out
    assert demiurge("ws", "log", "my notes").status == 0
    assert demiurge("journal", "verify").document["ok"] is True
    assert demiurge("replay").document["ok"] is True
    assert demiurge("ws", "write", "my notes/y", "hi").status == 1


def test_two_versions_are_compared_as_they_are_named(written: Any) -> None:
    wanted = written("ws", "diff", "main@1", "3").out
    assert "+2" in wanted
    assert written("ws", "diff", "main@1", "main@3").out == wanted
    assert written("ws", "diff", "main@1/notes", "main@3/notes").status == 0
    for other in ("other@3", "main", "main@3/b.txt", "x y"):
        assert written("ws", "diff", "main@1/notes", other).status == 2
