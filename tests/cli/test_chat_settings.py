"""`--system` and `--evidence`: put in force for all chats of a world with a record, and remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Processes
from tests.cli.test_server_takes_world import Server, until

PIRATE = "Speak like a pirate."


def told(provider: Any) -> str:
    """Returns what the model was told first in its last request."""
    first = provider.seen[-1]["input"][0]
    return json.dumps(first["content"]) if first["role"] == "system" else ""


def say(demiurge: Any, provider: Any, *options: str) -> Any:
    provider.say(provider.answer(provider.text("Arr.")))
    done = demiurge("chat", "-m", "hello", *options)
    assert done.status == 0, done
    return done


def changes(demiurge: Any) -> list[tuple[str, str, list[str] | None]]:
    entries = demiurge("--json", "manifest", "log").document
    return [(entry["caller"]["actor"], entry["how"], entry["changed"]) for entry in entries]


def test_a_system_prompt_is_kept_with_a_record_over_later_commands(
    demiurge: Any, provider: Any, tmp_path: Path
) -> None:
    (tmp_path / "system.txt").write_text(PIRATE)
    first = say(demiurge, provider, "--system", "@system.txt")
    assert f"For all chats of this world from now on: --system '{PIRATE}'." in first.err
    (tmp_path / "system.txt").unlink()
    assert PIRATE in told(provider)
    assert "from now on" not in say(demiurge, provider).err
    assert PIRATE in told(provider)
    say(demiurge, provider, "--system", "Speak like a judge.")
    assert "judge" in told(provider)
    assert changes(demiurge)[-1] == ("user", "settings set", ["prompt"])
    assert demiurge("init", "--forget").err.startswith("Forgotten for this world: --system 'Speak like a judge.'")
    say(demiurge, provider)
    assert "You are Demiurge" in told(provider)
    assert demiurge("replay", "--check").status == 0
    assert demiurge("journal", "verify").status == 0


def test_init_remembers_a_prompt_and_what_becomes_of_evidence(demiurge: Any, provider: Any) -> None:
    assert demiurge("init", "--system", PIRATE, "--evidence", "refuse").status == 0
    provider.say(provider.answer(provider.text(f"Yes.\nEvidence: a.md rcpt_{'0' * 32}")))
    refused = demiurge("chat", "-m", "Is it?", "--json")
    assert refused.document["error"]["code"] == "evidence_refused"
    assert PIRATE in told(provider)
    assert demiurge("chat", "-m", "hi", "--tools", "no_such_module").status == 1
    again = demiurge("init", "--evidence", "off")
    assert "--evidence off" in again.err
    assert changes(demiurge)[-1] == ("user", "settings set", ["settings"])
    provider.say(provider.answer(provider.text(f"Yes.\nEvidence: a.md rcpt_{'0' * 32}")))
    assert demiurge("chat", "-m", "Is it?", "--json").document["findings"] == []


@pytest.mark.parametrize(("options", "words"), [(("--system", " "), "1 to 32768"), (("--evidence", "no"), "'no'")])
def test_a_setting_that_can_not_be_is_refused(demiurge: Any, provider: Any, options: Any, words: str) -> None:
    done = demiurge("chat", "-m", "hello", *options)
    assert (done.status != 0, words in done.err) == (True, True)
    assert provider.seen == []


def test_a_prompt_is_set_beside_a_running_server_and_by_no_agent(
    demiurge: Any, process: Processes, provider: Any
) -> None:
    demiurge("init")
    tokens = [demiurge("--json", "tokens", "add", f"{role}:a", "--role", role) for role in ("user", "agent")]
    user, agent = (made.document["token"] for made in tokens)
    server = Server(process, "--system", "Be brief.")
    say(demiurge, provider)
    assert "Be brief." in told(provider)
    refused = demiurge("--token", agent, "chat", "-m", "hello", "--system", "Obey me.")
    assert (refused.status, "role" in refused.err) == (1, True)
    say(demiurge, provider, "--system", PIRATE)
    assert PIRATE in told(provider)
    provider.say(provider.answer(provider.text("Arr.")))
    server.post(user, "/api/chats/other/messages", text="hello")
    until(lambda: provider.seen)
    assert PIRATE in told(provider)
    prompt = server.get(agent, "/api/info")["system_prompt"]
    assert (prompt["text"], prompt["by"], prompt["is_default"]) == (PIRATE, "user", False)
    server.stop()
    say(demiurge, provider)
    assert PIRATE in told(provider)
    assert changes(demiurge)[1:] == [("user", "settings set", ["prompt"])] * 2
    assert demiurge("replay", "--check").status == 0
