"""A manifest is a folder of JSON files, and a mistake is told with the file it is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demiurge.apps.demiurge import app
from demiurge.tools.policy import ToolPolicy
from demiurge.world.manifest import BadManifest, Manifest, problems, read_folder
from demiurge.world.reducer import Reducer, Step
from demiurge.world.workspace import WORKSPACE, workspace_reducer

SCHEMA = {"$kind": "defschema", "name": "ex/Note@1", "type": {"record": {"text": {"text": {}}}}}
TOOL = {
    "name": "bell",
    "description": "Ring the bell.",
    "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
    "effect": "read_only",
    "redaction": {"mode": "message_only", "fields": []},
}


def write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, "utf-8")
    return folder


def told(folder: Path) -> list[tuple[str, str, str]]:
    return [(p.file, p.path, p.wrong) for p in problems(read_folder(folder))]


def test_files_hold_one_part_or_several_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / "more.json").mkdir()
    folder = read_folder(
        write(tmp_path, one=SCHEMA, several=[{**SCHEMA, "name": "ex/Other@1"}], root={"$kind": "manifest"})
    )
    assert [part.content["name"] for part in folder.definitions] == ["ex/Note@1", "ex/Other@1"]
    assert [(part.place.file, part.place.path) for part in folder.definitions] == [
        ("one.json", ""),
        ("several.json", "[0]"),
    ]
    assert problems(folder) == ()


def test_sections_of_the_root_may_have_files_of_their_own(tmp_path: Path) -> None:
    grants = {"$kind": "manifest", "defaults": {"cap_grants": [{"name": "a", "cap": "sys/blob@1"}]}}
    more = {"$kind": "manifest", "defaults": {"cap_grants": [{"name": "b", "cap": "sys/timer@1"}], "policy": "ex/p@1"}}
    policy = {"$kind": "defpolicy", "name": "ex/p@1", "rules": []}
    settings = {"$kind": "manifest", "settings": {"x": 1}, "air_version": "1"}
    folder = read_folder(
        write(tmp_path, a=grants, b=[more, policy], c=settings, d={"$kind": "manifest", "settings": {"y": 2}})
    )
    assert problems(folder) == ()
    root = folder.root()
    assert [grant["name"] for grant in root["defaults"]["cap_grants"]] == ["a", "b"]
    assert root["defaults"]["policy"] == "ex/p@1"
    assert root["settings"] == {"x": 1, "y": 2}


def test_a_setting_policy_or_default_set_twice_is_reported(tmp_path: Path) -> None:
    policy = {"$kind": "defpolicy", "name": "ex/p@1", "rules": []}
    root = {
        "$kind": "manifest",
        "settings": {"x": 1},
        "tool_policy": {"allowed_tools": []},
        "defaults": {"policy": "ex/p@1"},
    }
    assert told(write(tmp_path, a=[root, policy], b=root)) == [
        ("b.json", "settings.x", "settings.x is set twice"),
        ("b.json", "defaults.policy", "defaults.policy is set twice"),
        ("b.json", "tool_policy", "tool_policy is set twice"),
    ]


@pytest.mark.parametrize(
    ("text", "path", "wrong"),
    [
        ("{", "", "is no JSON"),
        ('{"$kind": "defschema", "$kind": "defcap"}', "", "is no JSON"),
        ('{"x": NaN}', "", "is no JSON"),
        ('["text"]', "[0]", "is no object with a $kind"),
        ('{"name": "ex/X@1"}', "", "is no object with a $kind"),
        ('{"$kind": 7}', "", "is no object with a $kind"),
        ("[" * 100_000, "", "is no JSON"),
    ],
)
def test_a_file_that_can_not_be_read_is_told_beside_the_others_mistakes(
    tmp_path: Path, text: str, path: str, wrong: str
) -> None:
    root = {"$kind": "manifest", "triggers": [{"event": "ex/Note@1", "plan": "ex/gone@1"}]}
    found = told(write(tmp_path, a=text, b=[SCHEMA, root]))
    assert [(file, at) for file, at, _ in found] == [("a.json", path), ("b.json", "[1].triggers[0].plan")]
    assert wrong in found[0][2]


def test_a_folder_of_nothing_is_no_manifest(tmp_path: Path) -> None:
    [nothing, no_root] = told(tmp_path)
    assert (nothing[2], no_root[2]) == ("holds no JSON file", "no file has the root")
    with pytest.raises(BadManifest, match="is no folder"):
        read_folder(tmp_path / "gone")


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"$kind": "manifest"}).encode())
    assert told(tmp_path) == []


def test_toolsets_and_tool_policy_are_data_too(tmp_path: Path) -> None:
    toolset = {"$kind": "deftoolset", "name": "ex/tools@1", "tools": [TOOL]}
    root = {"$kind": "manifest", "toolsets": ["ex/tools@1"], "tool_policy": {"allowed_tools": ["bell"]}}
    folder = read_folder(write(tmp_path, a=[toolset, root]))
    assert problems(folder) == ()
    assert [spec.name for spec in folder.toolset()] == ["bell"]
    assert folder.tool_policy() == ToolPolicy(("bell",))
    root |= {"toolsets": ["ex/tolls@1"], "tool_policy": {"allowed": []}}
    assert [(file, path) for file, path, _ in told(write(tmp_path, a=[toolset, root]))] == [
        ("a.json", "[1].tool_policy"),
        ("a.json", "[1].tool_policy"),
        ("a.json", "[1].toolsets[0]"),
    ]


def test_a_folder_becomes_a_manifest(tmp_path: Path) -> None:
    abi = {"state": "ex/Note@1", "event": "ex/Note@1"}
    module = {"$kind": "defmodule", "name": "ex/Notes@1", "module_kind": "reducer", "abi": abi}
    root = {"$kind": "manifest", "routing": {"events": [{"event": "ex/Note@1", "module": "ex/Notes@1"}]}}
    folder = read_folder(write(tmp_path, a=[SCHEMA, module], b=root))
    assert problems(folder, {WORKSPACE}) != (), "the module has no code"
    reducers = {"ex/Notes@1": Reducer(lambda _s, _e, _c: Step(), b"1"), WORKSPACE: workspace_reducer()}
    definitions = [part.content for part in folder.definitions]
    manifest = Manifest.build(definitions, folder.root(), reducers, tool_policy=ToolPolicy())
    assert manifest.routes["ex/Note@1"].module == "ex/Notes@1"


def test_the_shipped_app_is_a_folder_of_files() -> None:
    assert {d["$kind"] for d in app().definitions} == {
        "defschema",
        "defmodule",
        "defplan",
        "defcap",
        "defpolicy",
        "defsecret",
    }
    assert app().system_prompt.startswith("You are Demiurge")
