"""`demiurge doctor`: what is broken is named with its remedy, and keys are never shown."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Answer
from tests.registry.proposals import proposal_of


def statuses(done: Any) -> dict[str, str]:
    return {check["name"]: check["status"] for check in done.document["checks"]}


def test_a_healthy_machine(demiurge: Any) -> None:
    demiurge("init")
    done = demiurge("doctor", "--json")
    assert done.status == 0
    assert set(statuses(done).values()) == {"ok"} or statuses(done)["local engine"] == "warn"
    assert os.environ["LLM_API_KEY"] not in done.out + done.err
    assert "LLM_API_KEY" in done.out
    assert "ok    sqlite" in demiurge("doctor").out


def test_doctor_says_for_each_provider_whether_there_is_a_key(demiurge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> dict[str, tuple[str, str]]:
        checks = demiurge("doctor", "--json").document["checks"]
        found = {check["name"].removeprefix("key for "): (check["detail"], check["mend"]) for check in checks}
        return {name: found[name] for name in ("openai", "anthropic")}

    assert keys() == {"openai": ("LLM_API_KEY set", ""), "anthropic": ("LLM_API_KEY set", "")}
    monkeypatch.delenv("LLM_API_KEY")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-canary")
    assert keys() == {
        "openai": ("none", "Set OPENAI_API_KEY (or LLM_API_KEY), or run `demiurge secrets set llm/api`."),
        "anthropic": ("ANTHROPIC_API_KEY set", ""),
    }
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    demiurge("secrets", "set", "llm/anthropic", stdin=b"sk-ant-canary")
    assert keys()["anthropic"] == ("llm/anthropic is in the secret vault", "")
    assert "sk-ant-canary" not in demiurge("doctor").out


def test_doctor_makes_no_world(demiurge: Any, world: Path) -> None:
    done = demiurge("doctor")
    assert done.status == 0
    assert "demiurge init" in done.out
    assert not world.exists()


def test_without_key_and_engine_nothing_can_answer(demiurge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_API_KEY")
    monkeypatch.setattr("demiurge.cli.progress.ENGINE", "no_such_engine")
    done = demiurge("doctor", "--json")
    assert done.status == 1
    assert statuses(done)["local engine"] == "fail"
    assert statuses(done)["local model"] == "warn"
    assert "local engine" in done.document["error"]["message"]
    assert "pip install" in demiurge("doctor").out
    chat = demiurge("chat", "-m", "hello", "--json")
    assert chat.status == 1
    assert chat.document["error"]["code"] == "engine_missing"


def test_a_world_that_can_not_be_opened(demiurge: Any, world: Path) -> None:
    demiurge("init")
    with closing(sqlite3.connect(world / "journal.db")) as database:
        database.execute("PRAGMA user_version = 99")
    done = demiurge("doctor", "--json")
    assert done.status == 1
    assert statuses(done)["world"] == "fail"
    assert "upgrade" in done.out


def test_a_folder_that_takes_nothing(demiurge: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("demiurge.cli.doctor.tempfile.TemporaryDirectory", refuse)
    done = demiurge("doctor", "--json")
    assert done.status == 1
    assert statuses(done)["disk"] == "fail"
    assert str(tmp_path) in done.out


def test_a_vault_that_nothing_can_be_put_into_is_told(demiurge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demiurge.cli.doctor.find_spec", lambda _name: None)
    [vault] = [check for check in demiurge("--json", "doctor").document["checks"] if check["name"] == "vault"]
    assert (vault["status"], "demiurge-runtime[connections]" in vault["mend"]) == ("warn", True)


def test_a_short_key_is_told(demiurge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [c for c in demiurge("--json", "doctor").document["checks"] if c["name"] == "short keys"]
    monkeypatch.setenv("LLM_API_KEY", "e")
    [short] = [check for check in demiurge("--json", "doctor").document["checks"] if check["name"] == "short keys"]
    assert short["status"] == "warn"
    assert "LLM_API_KEY" in short["detail"]
    assert "whole word" in short["detail"]


def test_a_short_value_in_the_vault_is_told(demiurge: Any) -> None:
    done = demiurge("secrets", "set", "shop/pin", stdin=b"1234")
    assert "whole word" in done.err
    [vault] = [check for check in demiurge("--json", "doctor").document["checks"] if check["name"] == "vault"]
    assert "shop/pin@1" in vault["detail"]


def test_proposals_and_issues_that_wait_are_counted(demiurge: Any) -> None:
    assert demiurge("init").status == 0
    assert "reviews" not in demiurge("doctor").out
    for name in ("scene_pacer", "scene_namer"):
        made = demiurge("tools", "propose", json.dumps(proposal_of(id=name)), "--json").document
    skip = ("--skip", "--reason", "A test.", "--digest", made["digest"])
    assert demiurge("tools", "review", made["id"], *skip).status == 0
    issue = demiurge("issues", "open", "Two endings", "--json").document
    assert demiurge("issues", "open", "Two beginnings").status == 0
    assert demiurge("issues", "close", issue["id"]).status == 0
    expected = "waiting: 1 proposal for the Chief of Staff, 1 proposal for a user, 1 issue for an answer"
    assert expected in demiurge("doctor").out


def test_a_prompt_tool_whose_text_was_erased_is_named(demiurge: Any) -> None:
    made = demiurge("tools", "propose", json.dumps(proposal_of()), "--json").document
    digest = ("--digest", made["digest"])
    assert demiurge("tools", "review", made["id"], "--skip", "--reason", "A test.", *digest).status == 0
    assert demiurge("tools", "approve", made["id"], "--read", *digest).status == 0
    live = demiurge("tools", "show", "scene_pacer", "--json").document["digest"]
    erased = demiurge("erase", live, "--why", "A test.")
    assert erased.status == 0, erased
    assert "The prompt tool scene_pacer (layer user, version 1) is damaged" in demiurge("doctor").out
    listed = demiurge("tools", "ls", "--json")
    assert listed.status == 0
    assert "The prompt tool scene_pacer" in listed.err
    assert "scene_pacer" not in [row["id"] for row in listed.document["tools"]]


def test_a_key_is_said_to_answer_only_when_it_was_tried(demiurge: Any, provider: Any) -> None:
    [untried] = [check for check in demiurge("doctor", "--json").document["checks"] if check["name"] == "keys"]
    assert untried["detail"] == "openai-responses is chosen, because its key is set; the key was not tried"
    assert "doctor --try" in untried["mend"]
    assert provider.seen == []
    provider.say(provider.recorded("responses_stream_text"), Answer(b'{"error": {"message": "No."}}', 401))
    tried, refused = (demiurge("doctor", "--try", "--json") for _ in range(2))
    assert [body["max_output_tokens"] for body in provider.seen] == [16, 16]
    [good] = [check for check in tried.document["checks"] if check["name"] == "tried key"]
    assert (good["status"], "287 tokens, " in good["detail"]) == ("ok", True), good
    assert refused.status == 1
    [bad] = [check for check in refused.document["checks"] if check["name"] == "tried key"]
    assert (bad["status"], "key" in bad["detail"], "LLM_API_KEY" in bad["mend"]) == ("fail", True, True), bad
