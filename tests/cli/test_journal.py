"""`demiurge journal`: what happened, and proof that it is what happened."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def chatted(demiurge: Any, provider: Any) -> Any:
    """A world with one turn in it, and the command to look at it with."""
    provider.say(
        provider.answer(provider.call("core__get_current_time", {})), provider.answer(provider.text("It is late."))
    )
    assert demiurge("chat", "-m", "What time is it?").status == 0
    return demiurge


def test_verify_prints_what_it_saw_and_its_seal_can_be_kept(chatted: Any, provider: Any) -> None:
    found = chatted("journal", "verify").document
    assert set(found) == {"records", "units", "seal", "ok"}
    assert found["units"] == 3
    assert found["ok"] is True
    assert chatted("journal", "verify", "--seal", found["seal"]).status == 0
    provider.say(provider.answer(provider.text("More.")))
    chatted("chat", "-m", "Go on.")
    assert chatted("journal", "verify", "--seal", found["seal"]).status == 0, "a world may grow"
    done = chatted("journal", "verify", "--seal", "3-" + "1" * 64, "--json")
    assert done.status == 1
    assert done.document["ok"] is False
    assert done.document["error"]["code"] == "seal"
    miswritten = chatted("journal", "verify", "--seal", "sha256:" + "1" * 64, "--json")
    assert miswritten.document["error"]["code"] == "invalid_seal"


def test_a_seal_costs_no_verify_and_can_be_had_of_any_moment(chatted: Any, provider: Any) -> None:
    verified = chatted("journal", "verify").document
    assert chatted("--json", "journal", "seal").document == {"seal": verified["seal"]}
    assert chatted("journal", "seal", "--at", str(verified["records"])).out == verified["seal"] + "\n"
    past = chatted("journal", "seal", "--at", "3").out.strip()
    assert past.startswith("3-")
    assert chatted("journal", "verify", "--seal", past).status == 0
    beyond = chatted("journal", "seal", "--at", "99999", "--json")
    assert (beyond.status, beyond.document["error"]["code"]) == (1, "unknown_position")


def test_a_record_is_proved_to_somebody_who_has_a_seal_and_no_world(
    chatted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = chatted("journal", "seal").out.strip()
    proof = chatted("journal", "prove", "2", "--seal", seal)
    (tmp_path / "proof.json").write_text(proof.out)
    record = chatted("journal", "export", "--json").document["records"][1]
    monkeypatch.setenv("DEMIURGE_WORLD", str(tmp_path / "nowhere"))
    done = chatted("journal", "check", f"@{tmp_path / 'proof.json'}", "--seal", seal)
    assert done.document == {"ok": True, "record": {key: record[key] for key in record if key != "cbor"}}
    other = seal[:-1] + ("0" if seal[-1] != "0" else "1")
    assert chatted("journal", "check", proof.out, "--seal", other, "--json").document["error"]["code"] == "proof"
    changed = json.dumps(proof.document | {"position": 3})
    assert chatted("journal", "check", changed, "--seal", seal, "--json").document["error"]["code"] == "proof"
    assert chatted("journal", "check", "{}", "--seal", seal, "--json").document["error"]["code"] == "invalid_proof"
    assert chatted("journal", "check", proof.out, "--seal", "x", "--json").document["error"]["code"] == "invalid_seal"


def test_a_seal_of_another_world_is_not_proved_under(chatted: Any) -> None:
    done = chatted("journal", "prove", "1", "--seal", "3-" + "0" * 64, "--json")
    assert (done.status, done.document["error"]["code"]) == (1, "seal")


@pytest.mark.parametrize("json_too", [False, True])
def test_verify_names_the_record_whose_byte_was_changed(json_too: bool, chatted: Any, world: Path) -> None:
    with closing(sqlite3.connect(world / "journal.db")) as database, database:
        [(seq, data)] = database.execute("SELECT seq, data FROM journal WHERE kind = 'receipt' LIMIT 1").fetchall()
        changed = bytes([*data[:-1], data[-1] ^ 1])
        database.execute("UPDATE journal SET data = ? WHERE seq = ?", (changed, seq))
    done = chatted("journal", "verify", *(["--json"] if json_too else []))
    assert done.status == 1
    assert done.document["ok"] is False
    said = done.document["error"]["message"] if json_too else done.err
    assert f"ecord {seq} " in said or f"main {seq}" in said
    failed = chatted("replay", "--check", "--json")
    told = chatted("replay", "--no-check")
    assert (failed.status, told.status) == (1, 0)
    assert told.document == {"ok": False, "error": failed.document["error"]}


def test_verify_names_the_record_whose_blob_was_changed(chatted: Any, world: Path) -> None:
    with closing(sqlite3.connect(world / "journal.db")) as database, database:
        changed = database.execute(
            "UPDATE blob SET data = CAST(replace(CAST(data AS TEXT), 'is late', 'is fate') AS BLOB) "
            "WHERE instr(CAST(data AS TEXT), 'is late')"
        )
        assert changed.rowcount > 0
    done = chatted("journal", "verify")
    assert done.status == 1
    assert "record demiurge/Demiurge@1/main" in done.err


def test_replay_computes_the_same(chatted: Any) -> None:
    found = chatted("replay", "--check").document
    assert found == {"units": 3, "records": chatted("journal", "verify").document["records"], "ok": True}


def test_head_and_tail(chatted: Any) -> None:
    heads = chatted("journal", "head", "--json").document["units"]
    names = ["demiurge/Demiurge@1/main", "demiurge/Titles@1/main", "sys/World@1/manifest"]
    assert [head["unit"] for head in heads] == names
    unit = heads[1]
    last = chatted("journal", "tail", "-n", "3", "--json").document["records"]
    assert [record["seq"] for record in last] == [unit["records"] - 3, unit["records"] - 2, unit["records"] - 1]
    assert f"sha256:{last[-1]['hash']}" == unit["hash"]
    same = chatted("journal", "tail", "-n", "3", "--unit", unit["unit"], "--json").document["records"]
    assert same == last
    assert "event ChatResult" in chatted("journal", "tail").out
    assert chatted("journal", "tail", "--unit", "demiurge/Demiurge@1/nobody").status == 1


def test_an_export_carries_its_own_proof(chatted: Any, tmp_path: Path) -> None:
    assert chatted("journal", "export", "--out", "records.jsonl").status == 0
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert records == chatted("journal", "export", "--json").document["records"]
    assert len(records) == chatted("journal", "verify").document["records"]
    previous: dict[str, str] = {}
    for record in records:
        assert hashlib.sha256(base64.b64decode(record["cbor"])).hexdigest() == record["hash"]
        assert record["prev"] == previous.get(record["unit"], "0" * 64)
        previous[record["unit"]] = record["hash"]


def test_the_manifest_is_the_one_that_records_name(chatted: Any) -> None:
    manifest = chatted("manifest", "get").document
    assert {"root", "definitions", "tool_policy", "toolset"} <= set(manifest)
    assert "core__get_current_time" in {tool["name"] for tool in manifest["toolset"]}
