"""`demiurge manifest check DIR`: a folder is checked without a world, and every mistake is told with its place."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with resources.as_file(resources.files("demiurge.apps.demiurge").joinpath("air")) as shipped:
        shutil.copytree(shipped, tmp_path / "air")
    return tmp_path / "air"


def test_the_shipped_app_is_a_folder_that_passes(demiurge: Any, folder: Path) -> None:
    done = demiurge("manifest", "check", str(folder))
    assert done.status == 0
    assert "7 plans" in done.out
    assert "1 policy" in done.out
    document = demiurge("--json", "manifest", "check", str(folder)).document
    assert (document["ok"], document["plan"]) == (True, 7)


def test_all_mistakes_are_told_at_once(demiurge: Any, folder: Path) -> None:
    plans = json.loads((folder / "plans.json").read_text())
    plans[0]["steps"][0]["cap"] = "cap_lm"
    plans[1]["steps"][0]["kind"] = "tool.cal"
    (folder / "plans.json").write_text(json.dumps(plans))
    (folder / "broken.json").write_text("{")
    done = demiurge("manifest", "check", str(folder))
    assert (done.status, done.out) == (1, "")
    assert "3 problems" in done.err
    assert "plans.json: [0].steps[0].cap: there is no grant cap_lm; perhaps you mean cap_llm" in done.err
    document = demiurge("--json", "manifest", "check", str(folder)).document
    assert document["error"]["code"] == "bad_manifest"
    assert [(p["file"], p["path"]) for p in document["problems"]] == [
        ("broken.json", ""),
        ("plans.json", "[0].steps[0].cap"),
        ("plans.json", "[1].steps[0].kind"),
    ]


def test_a_folder_that_is_not_there(demiurge: Any, tmp_path: Path) -> None:
    done = demiurge("manifest", "check", str(tmp_path / "gone"))
    assert done.status == 1
    assert "is no folder" in done.err
