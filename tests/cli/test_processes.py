"""Two processes and one world; a process that is stopped or killed in the middle of a turn."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest


def test_the_owner_serves_other_processes_while_it_chats(process: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("That took a while."), held=True))
    chatting = process.start("chat", "-m", "Think hard.", "--json")
    assert provider.asked.wait(20)
    with ThreadPoolExecutor(3) as pool:
        jobs = [
            pool.submit(process, *words)
            for words in (
                ("state", "get", "demiurge/Demiurge@1", "--key", "main"),
                ("journal", "verify"),
                ("blob", "put", "from the other side"),
            )
        ]
        state, verified, put = [job.result() for job in jobs]
    assert chatting.poll() is None
    provider.let_go.set()
    assert (state.status, verified.status, put.status) == (0, 0, 0), (state, verified, put)
    assert state.document["turn"]["status"] == "model"
    assert verified.document["ok"] is True
    chatted = process.finish(chatting)
    assert chatted.status == 0
    assert chatted.document["text"] == "That took a while."
    assert process("blob", "get", put.document["hash"], "--raw").out == "from the other side"


def test_a_chat_outlives_the_owner_that_it_joined(process: Any, provider: Any) -> None:
    """The owner is killed while it performs another process's turn: that process takes over and finishes it."""
    provider.say(
        provider.answer(provider.text("Owner's."), held=True),
        provider.answer(provider.text("Guest's, first."), held=True),
        provider.answer(provider.text("Guest's, again.")),
    )
    owner = process.start("chat", "one", "-m", "Slow.")
    assert provider.asked.wait(20)
    provider.asked.clear()
    guest = process.start("chat", "two", "-m", "Hello?", "--json")
    assert provider.asked.wait(20)
    owner.kill()
    process.finish(owner)
    done = process.finish(guest)
    assert done.status == 0, done
    assert done.document["text"] == "Guest's, again."
    assert process("journal", "verify").document["ok"] is True
    assert process("replay").document["ok"] is True


def test_sigint_during_a_slow_answer_leaves_a_sane_world(process: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Slow."), held=True), provider.answer(provider.text("Quick.")))
    chatting = process.start("chat", "-m", "Think hard.", "--json")
    assert provider.asked.wait(20)
    chatting.send_signal(signal.SIGINT)
    stopped = process.finish(chatting)
    assert stopped.status == 1
    assert stopped.document["error"]["code"] == "cancelled"
    assert "Traceback" not in stopped.err
    assert process("journal", "verify").document["ok"] is True
    again = process("chat", "-m", "And now?")
    assert again.status == 0
    assert "Quick." in again.out
    assert process("replay").document["ok"] is True


def test_a_turn_left_open_by_a_killed_process_is_finished_first_and_shown(process: Any, provider: Any) -> None:
    provider.say(
        provider.answer(provider.text("Never heard."), held=True),
        provider.answer(provider.text("The first answer.")),
        provider.answer(provider.text("The second answer.")),
    )
    chatting = process.start("chat", "-m", "First question")
    assert provider.asked.wait(20)
    chatting.kill()
    process.finish(chatting)
    done = process("chat", "-m", "Second question")
    assert done.status == 0
    assert "Going on with the last turn: First question" in done.err
    assert "The first answer." in done.err
    assert done.out == "The second answer.\n"
    messages = process("chat", "export").document["messages"]
    assert [m["text"] for m in messages] == [
        "First question",
        "The first answer.",
        "Second question",
        "The second answer.",
    ]


def test_other_tools_than_the_owner_has_are_refused(process: Any, provider: Any, tmp_path: Any) -> None:
    (tmp_path / "other_policy.json").write_text(json.dumps({"allowed_tools": []}))
    provider.say(provider.answer(provider.text("Slow."), held=True))
    chatting = process.start("chat", "-m", "Think hard.")
    assert provider.asked.wait(20)
    done = process("chat", "-m", "hello", "--policy", "other_policy.json", "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == "owned"
    chatting.kill()
    process.finish(chatting)


@pytest.mark.parametrize(
    "words", [("doctor",), ("--json", "doctor"), ("--json", "state", "get", "demiurge/Demiurge@1")]
)
def test_a_result_that_cannot_be_written_is_one_sentence(words: tuple[str, ...], process: Any) -> None:
    with open("/dev/full", "w") as full:
        started = process.start(*words, stdout=full)
        _, said = started.communicate(timeout=60)
    assert started.returncode == 1
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
