"""Seed 001's CLI smoke test, as printed there (with `demiurge` for the cargo command)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.provider import Answer


def shell(line: str, environment: Mapping[str, str]) -> str:
    """One line of the seed, typed into a shell."""
    command = f'demiurge() {{ "{sys.executable}" -m demiurge.cli "$@"; }}\n{line}'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], env=dict(environment), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


SMOKE = Path(__file__).parents[2] / "docs/examples/smoke.sh"


def test_the_documented_smoke_test_asks_a_provider_and_fails_with_a_wrong_key(
    environment: dict[str, str], provider: Any
) -> None:
    provider.say(provider.recorded("responses_stream_text"), Answer(b'{"error": {"message": "No."}}', 401))
    command = f'demiurge() {{ "{sys.executable}" -m demiurge.cli "$@"; }}; export -f demiurge; bash {SMOKE}'
    done, refused = [
        subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
        for _ in range(2)
    ]
    assert done.returncode == 0, done
    assert "The capital of France is Paris." in done.stdout
    assert "278+9" in done.stdout
    assert provider.seen[0]["model"] == "gpt-4o-mini"
    assert (refused.returncode, "key" in refused.stderr) == (1, True), refused


def test_seed_001_smoke(environment: dict[str, str], provider: Any) -> None:
    provider.say(provider.recorded("responses_stream_text"))

    created = json.loads(
        shell(
            """demiurge event send demiurge/ChatEvent@1 '{"$tag":"ChatCreated","$value":{"chat_id":"chat-1",\
"title":"First chat","created_at_ms":1737460000000}}'""",
            environment,
        )
    )
    assert created["unit"] == "demiurge/Demiurge@1/chat-1"
    assert created["seq"] == 0
    assert created["event_hash"].startswith("sha256:")

    stored = json.loads(
        shell(
            """echo '{"role":"user","content":[{"type":"text","text":"Hello from AOS"}]}' | demiurge blob put @-""",
            environment,
        )
    )
    sent = json.loads(
        shell(
            """demiurge event send demiurge/ChatEvent@1 '{"$tag":"UserMessage","$value":{"chat_id":"chat-1",\
"request_id":1,"text":"Hello","message_ref":"sha256:...","model":"gpt-4o-mini","provider":"openai-responses",\
"max_tokens":128}}'""".replace("sha256:...", stored["hash"]),
            environment,
        )
    )
    assert sent["unit"] == created["unit"]
    assert provider.seen[0]["model"] == "gpt-4o-mini"
    assert provider.seen[0]["max_output_tokens"] == 128
    assert "Hello from AOS" in json.dumps(provider.seen[0]["input"])

    state = json.loads(shell("demiurge state get demiurge/Demiurge@1 --key chat-1", environment))
    assert [message["role"] for message in state["messages"]] == ["user", "assistant"]
    assert state["messages"][1]["token_usage"] == {"prompt": 278, "completion": 9}

    output_ref = state["messages"][1]["message_ref"]
    answer = json.loads(shell(f"demiurge blob get {output_ref} --raw", environment))
    assert answer["role"] == "assistant"
    said = "".join(part["text"] for part in answer["content"])
    assert said == "The capital of France is Paris."
