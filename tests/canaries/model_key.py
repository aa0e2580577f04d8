"""A model's key of the environment and one of the vault: providers send them back, processes are killed and join."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.canaries.search import Traces, bytes_below, spellings_of, tap_socket

GIVEN = "canary-environment-0123456789"
KEPT = "canary-vault-9876543210-abcdef"
VAULT_KEY = "c0ffee" * 10 + "c0de"
VALUES = {"key in the environment": GIVEN, "key in the vault": KEPT, "key of the vault": VAULT_KEY}


def all_spellings(value: str) -> str:
    return " ".join(spellings_of(value).values())


def run_journey(process: Any, provider: Any, world: Path, tmp_path: Path) -> Traces:
    """Chats with either key, in commands, in a process that is killed, and as a guest of that one."""
    said: list[str] = []
    vault = {"LLM_API_KEY": "", "DEMIURGE_VAULT_KEY": VAULT_KEY}

    def run(*words: str, given: dict[str, str] = vault, stdin: str = "", status: int = 0) -> Any:
        done = process(*words, stdin=stdin, given=given)
        said.extend((done.out, done.err))
        assert done.status == status, done
        return done

    def refusing(value: str) -> Any:
        return provider.raw(json.dumps({"error": {"message": all_spellings(value)}}).encode(), 401, "application/json")

    write = provider.call("workspace__write", {"path": "a.txt", "text": "hello"})
    listing = provider.call("workspace__list", {}, "call_2")
    run("secrets", "set", "llm/api", stdin=KEPT)
    provider.say(provider.answer(write), provider.answer(listing), provider.answer(provider.text("Written.")))
    run("chat", "-m", "Write a file.", "--yes", "-vv")
    provider.say(refusing(KEPT))
    run("chat", "-m", "Fail.", "-vv", status=1)
    run("chat", "-m", "Fail again.", "--json", "--log-json", "-v", status=1)
    provider.say(provider.answer(provider.text(f"You sent {all_spellings(KEPT)}.")))
    run("chat", "-m", "What is my key?")
    assert set(provider.keys) == {f"Bearer {KEPT}"}

    environment = {"LLM_API_KEY": GIVEN}
    provider.say(refusing(GIVEN))
    run("chat", "-m", "Fail.", "-vv", given=environment, status=1)
    call = provider.call("workspace__write", {"path": "b.txt", "text": "b"}, "call_3")
    provider.say(provider.answer(call), provider.answer(provider.text("Never heard."), held=True))
    killed = process.start("chat", "-m", "Write another.", "--yes", "-vv", given=environment)
    while len(provider.seen) < 2:
        assert killed.poll() is None
    with tap_socket(world / "owner.sock") as heard:
        provider.say(provider.answer(provider.text(f"As a guest: {all_spellings(GIVEN)}")))
        run("chat", "two", "-m", "And mine?")
        provider.say(refusing(GIVEN))
        run("chat", "two", "-m", "And now?", status=1)
        run("state", "get", "demiurge/Demiurge@1", "--key", "main")
        run("secrets", "ls")
        run("journal", "export")
        run("doctor")
        assert any(b"As a guest" in data for data in heard)
    killed.kill()
    ended = process.finish(killed)
    said.extend((ended.out, ended.err))
    told = json.dumps(provider.seen)
    provider.say(provider.answer(provider.text(f"Again: {all_spellings(GIVEN)}")))
    run("chat", "-m", "And now?", "-vv", given=environment)
    run("journal", "export", "--out", str(tmp_path / "journal.jsonl"))
    run("trace", "--chat", "main")
    run("trace", "--chat", "main", "--json")
    run("secrets", "ls", "--json")
    run("doctor", "--json")
    run("journal", "verify")
    run("replay")
    records = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    handed = [record["body"]["secrets"] for record in records if "secrets" in record["body"]]
    digests = {entry["digest"] for entries in handed for entry in entries}
    assert len(digests) == 2, "one for each value"
    surfaces: dict[str, list[bytes | str]] = {
        "stdout and stderr": [*said],
        "socket": [*heard],
        "prompts": [told],
        "export": [(tmp_path / "journal.jsonl").read_bytes()],
        "world and home folder": [*bytes_below(tmp_path)],
    }
    return Traces(VALUES, surfaces)
