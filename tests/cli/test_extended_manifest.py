"""A manifest that extends the shipped app at the command line: checked, set, shown, and adopted in a copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_extension import upgrade

from demiurge.apps import demiurge as apps

POLICY = {
    "$kind": "defpolicy",
    "name": "my/policy@1",
    "rules": [{"when": {"effect_kind": "http.request", "origin_kind": "tool"}, "decision": "allow"}],
}
GRANT = {"name": "web", "cap": "sys/http.out@1", "params": {"hosts": ["api.example.com"]}}


KEY = {"$kind": "defsecret", "name": "llm/api@1", "binding_id": "env:MY_KEY", "allowed_caps": ["cap_llm"]}


@pytest.fixture
def mine(tmp_path: Path, environment: Any) -> Path:
    return write(tmp_path / "mine", POLICY, KEY, defaults={"policy": "my/policy@1", "cap_grants": [GRANT]})


def write(folder: Path, *definitions: Any, **root: Any) -> Path:
    folder.mkdir(exist_ok=True)
    parts = [*definitions, {"$kind": "manifest", "extends": "demiurge", **root}]
    (folder / "mine.json").write_text(json.dumps(parts))
    return folder


def test_a_sound_extension_is_checked_with_the_app(demiurge: Any, mine: Path) -> None:
    done = demiurge("manifest", "check", "mine")
    assert done.status == 0
    assert "mine is sound, and extends the app demiurge: " in done.out
    assert "7 plans" in done.out
    assert "2 policies" in done.out


def test_all_problems_are_told_with_their_files(demiurge: Any, mine: Path) -> None:
    grants = [{**GRANT, "cap": "sys/htp.out@1"}]
    write(mine, POLICY, defaults={"cap_grants": grants}, without={"cap_grants": ["cap_tool", "cap_no"]})
    document = demiurge("--json", "manifest", "check", "mine").document
    found = {(problem["file"], problem["path"]) for problem in document["problems"]}
    assert found >= {
        ("mine.json", "[0]"),
        ("mine.json", "[1].without.cap_grants[1]"),
        ("mine.json", "[1].defaults.cap_grants[0].cap"),
        ("demiurge/plans.json", "[1].steps[0].cap"),
        ("demiurge/calls.json", "[10].steps[0].cap"),
    }


def test_a_world_shows_its_extension_and_a_copy_asks_before_it_counts(
    demiurge: Any, mine: Path, world: Path, tmp_path: Path
) -> None:
    assert demiurge("init", "--manifest", "mine").status == 0
    node = demiurge("--json", "manifest", "get").document
    assert node["extension"]["root"]["extends"] == "demiurge"
    assert GRANT in node["root"]["defaults"]["cap_grants"]
    decided = demiurge("--json", "policy", "explain", "http.request").document["decisions"]
    assert [(each["decision"], each["cap"], each["rule"]["index"]) for each in decided] == [("allow", "web", 0)]
    assert demiurge("tools", "call", "core.get_current_time", "{}").status == 0
    assert demiurge("replay", "--check").document["ok"]
    shutil.copytree(world, tmp_path / "copy")
    refused = demiurge("-w", "copy", "--json", "tools", "call", "core.get_current_time", "{}")
    assert refused.document["error"]["code"] == "not_adopted"
    asked = demiurge("-w", "copy", "manifest", "adopt")
    assert asked.status == 2
    for line in (
        'It extends the app "demiurge", and gives beside it:',
        'grant: {"cap": "sys/http.out@1", "name": "web", "params": {"hosts": ["api.example.com"]}}',
        'definition: "my/policy@1"',
        'in place of the app\'s: "llm/api@1"',
        "secret: {",
        "rule before those of the app: {",
        "It gives 1 grant, 0 triggers, 1 secret; about tools it says nothing.",
    ):
        assert line in asked.out
    document = demiurge("-w", "copy", "--json", "manifest", "adopt", "--yes").document
    assert (document["extends"], document["definitions"]) == ("demiurge", ["my/policy@1"])
    assert document["replaced"] == ["llm/api@1"]
    assert demiurge("-w", "copy", "tools", "call", "core.get_current_time", "{}").status == 0


def test_a_world_leaves_its_extension(demiurge: Any, mine: Path) -> None:
    assert demiurge("init", "--manifest", "mine").status == 0
    assert demiurge("manifest", "set", "--shipped").status == 0
    assert "extension" not in demiurge("--json", "manifest", "get").document


def test_a_copy_of_the_app_becomes_an_extension(demiurge: Any, environment: Any, tmp_path: Path) -> None:
    air = Path(apps.__file__).with_name("air")
    shutil.copytree(air, tmp_path / "whole")
    grants = {"$kind": "manifest", "defaults": {"cap_grants": [GRANT]}}
    (tmp_path / "whole/mine.json").write_text(json.dumps(grants))
    rules = json.loads((air / "policy.json").read_text())
    rules[0]["rules"].insert(0, POLICY["rules"][0])
    (tmp_path / "whole/policy.json").write_text(json.dumps(rules))
    done = demiurge("--json", "manifest", "diff", "whole")
    assert (done.status, done.document[-1]["defaults"]["cap_grants"]) == (0, [GRANT])
    (tmp_path / "small").mkdir()
    (tmp_path / "small/all.json").write_text(json.dumps(done.document))
    assert demiurge("manifest", "check", "small").status == 0
    assert "is an extension already" in demiurge("manifest", "diff", "small").err
    (tmp_path / "whole/broken.json").write_text("{")
    assert demiurge("manifest", "diff", "whole").status == 1


def test_an_extension_that_an_upgrade_breaks_is_reported_and_mended(
    demiurge: Any, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demiurge("init", "--manifest", "mine").status == 0
    upgrade(monkeypatch, without_the_grant_of_models)
    called = demiurge("--json", "tools", "call", "core.get_current_time", "{}")
    assert (called.status, called.document["error"]["code"]) == (1, "unfit_extension")
    assert "llm/api@1: allowed_caps[0]: there is no grant cap_llm" in called.document["error"]["message"]
    assert demiurge("journal", "verify").status == 0
    doctor = demiurge("--json", "doctor")
    [check] = [check for check in doctor.document["checks"] if check["name"] == "world"]
    assert (doctor.status, check["status"]) == (1, "fail")
    assert "manifest set --shipped" in check["mend"]
    write(mine, POLICY, defaults={"policy": "my/policy@1", "cap_grants": [GRANT]})
    assert demiurge("manifest", "set", "mine").status == 0
    assert demiurge("tools", "call", "core.get_current_time", "{}").status == 0


def without_the_grant_of_models(content: Any) -> Any:
    """The later app calls its grant of models otherwise."""
    return json.loads(json.dumps(content).replace("cap_llm", "cap_models"))
