"""Issue 2's list of what may go wrong: a sentence that says what to do, status 1, and nothing lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from demiurge import faults


def error_body(message: str, kind: str = "error") -> bytes:
    return json.dumps({"error": {"message": message, "type": kind}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (
            401,
            error_body("Incorrect API key provided: sk-test-0123456789abcdef", "invalid_request_error"),
            "authentication",
        ),
        (404, error_body("The model does not exist"), "not_found"),
        (400, error_body("Unknown parameter"), "invalid_request"),
        (200, b"<html>It works!</html>", "bad_response"),
        (200, b"", "truncated"),
        (200, b'data: {"type":"response.output_text.delta","delta":"Hal', "truncated"),
    ],
)
def test_a_provider_that_fails_ends_the_turn_and_not_the_chat(
    status: int, body: bytes, code: str, demiurge: Any, provider: Any
) -> None:
    provider.say(provider.raw(body, status))
    done = demiurge("chat", "-m", "hello", "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == code
    assert done.document["status"] == "failed"
    assert "sk-test" not in done.out + done.err
    again = demiurge("chat", "-m", "hello")
    assert again.status == 1
    [sentence] = [line for line in again.err.splitlines() if line.startswith("error: ")]
    assert done.document["error"]["message"] in sentence

    provider.say(provider.answer(provider.text("Here I am.")))
    assert "Here I am." in demiurge("chat", "-m", "hello again").out
    assert demiurge("journal", "verify").document["ok"] is True
    assert demiurge("replay").document["ok"] is True


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit"), (500, "provider_unavailable")])
def test_a_busy_provider_is_asked_again_and_then_reported(status: int, code: str, demiurge: Any, provider: Any) -> None:
    provider.say(provider.raw(error_body("slow down"), status, headers={"retry-after-ms": "1"}))
    done = demiurge("chat", "-m", "hello", "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == code
    assert len(provider.seen) == 4


def test_nobody_at_the_address(demiurge: Any, provider: Any) -> None:
    done = demiurge("chat", "-m", "hello", "--base-url", "no address at all")
    assert done.status == 1
    assert "error: " in done.err


def test_a_missing_key_says_what_to_set(demiurge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_API_KEY")
    done = demiurge("chat", "-m", "hello", "--provider", "openai-responses")
    assert done.status == 1
    assert "LLM_API_KEY" in done.err


def test_an_unknown_provider_is_named_with_the_known_ones(demiurge: Any) -> None:
    done = demiurge("chat", "-m", "hello", "--provider", "skynet", "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == "unknown_provider"
    assert "openai-responses" in done.document["error"]["message"]


def test_a_world_of_a_newer_version_is_left_alone(demiurge: Any, world: Path) -> None:
    demiurge("init")
    with closing(sqlite3.connect(world / "journal.db")) as database:
        database.execute("PRAGMA user_version = 99")
    before = (world / "journal.db").read_bytes()
    done = demiurge("chat", "-m", "hello", "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == "newer_format"
    assert "upgrade" in done.document["error"]["message"]
    assert (world / "journal.db").read_bytes() == before


@pytest.mark.parametrize(
    ("action", "words"), [("enospc", "make room"), ("erofs", "can't be written to"), ("eio", "failed")]
)
@pytest.mark.parametrize("point", ["journal.before_commit", "blob.before_commit"])
def test_a_disk_that_takes_nothing_loses_nothing(
    point: str, action: str, words: str, demiurge: Any, provider: Any
) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    assert demiurge("chat", "-m", "first").status == 0
    before = demiurge("journal", "verify").document
    with faults.armed({point: action}):
        done = demiurge("chat", "-m", "second", "--json")
    assert done.status == 1
    assert words in done.document["error"]["message"]
    assert demiurge("journal", "verify").document["ok"] is True
    assert demiurge("journal", "verify").document["records"] >= before["records"]
    assert "Hello." in demiurge("chat", "-m", "second").out


def test_a_world_where_none_can_be_made(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = demiurge("-w", str(tmp_path / "file" / "world"), "chat", "-m", "hello")
    assert done.status == 1
    assert done.err.startswith("error: ")
