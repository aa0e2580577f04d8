"""`demiurge chat -m` between pipes: text piped in, the answer alone piped out, frames as JSON lines."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from tests.provider import Provider

TOOL = Provider.call("core__get_current_time", {"timezone": "Asia/Tokyo"})


def preamble(words: str) -> dict[str, Any]:
    return {**Provider.text(words), "id": "msg_0"}


def last_message(provider: Any) -> str:
    """Returns the words of the last message that the model got."""
    [*_, said] = [item for item in provider.seen[-1]["input"] if item.get("role") == "user"]
    return str(said["content"][0]["text"])


def test_the_answer_alone_is_printed_on_stdout(demiurge: Any, provider: Any) -> None:
    provider.say(Provider.answer(preamble("Let me look."), TOOL), Provider.answer(Provider.text("It is late.")))
    done = demiurge("chat", "-m", "What time is it?")
    assert (done.status, done.out) == (0, "It is late.\n")
    for shown in ("Let me look.", "→ core__get_current_time", "← It is ", "tokens in"):
        assert shown in done.err


def test_a_turn_that_fails_prints_nothing_on_stdout(demiurge: Any, provider: Any) -> None:
    provider.say(provider.raw(b"{}", 400))
    done = demiurge("chat", "-m", "What time is it?")
    assert (done.status, done.out) == (1, "")


def test_an_earlier_turn_that_is_finished_first_is_not_printed_as_the_answer(process: Any, provider: Any) -> None:
    provider.say(
        Provider.answer(Provider.text("Too late."), held=True),
        Provider.answer(Provider.text("Of the first.")),
        Provider.answer(Provider.text("Of the second.")),
    )
    killed = process.start("chat", "-m", "First?")
    assert provider.asked.wait(20)
    killed.kill()
    process.finish(killed)
    done = process("chat", "-m", "Second?")
    assert (done.status, done.out) == (0, "Of the second.\n")
    assert "Of the first." in done.err


def test_piped_text_stands_before_the_message(demiurge: Any, process: Any, provider: Any) -> None:
    provider.say(Provider.answer(Provider.text("Short.")))
    assert demiurge("chat", "-m", "Summarise this.", stdin="A long täle.\n\n".encode()).status == 0
    assert last_message(provider) == "A long täle.\n\nSummarise this."
    assert process("chat", "-m", "Summarise that.", "--stdin", stdin="Another tale.").out == "Short.\n"
    assert last_message(provider) == "Another tale.\n\nSummarise that."


def test_a_file_on_stdin_is_part_of_the_message(process: Any, provider: Any, tmp_path: Any) -> None:
    (tmp_path / "tale.txt").write_text("From a file.")
    provider.say(Provider.answer(Provider.text("Short.")))
    with (tmp_path / "tale.txt").open() as file:
        assert process.finish(process.start("chat", "-m", "Summarise this.", stdin=file)).status == 0
    assert last_message(provider) == "From a file.\n\nSummarise this."


def test_bytes_that_are_no_text_are_refused(demiurge: Any, provider: Any) -> None:
    done = demiurge("chat", "-m", "Summarise this.", stdin=b"\xff\xfe")
    assert done.status == 1
    assert "UTF-8" in done.err
    assert provider.seen == []


def test_an_open_pipe_that_stays_silent_is_left_alone(process: Any, provider: Any) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")))
    chatting = process.start("chat", "-m", "Hello?", stdin=subprocess.PIPE)
    assert provider.asked.wait(60)
    assert chatting.wait(60) == 0
    assert "No text came on stdin" in chatting.stderr.read()
    assert last_message(provider) == "Hello?"


def test_frames_are_json_lines_that_end_with_the_reply(demiurge: Any, provider: Any) -> None:
    provider.say(Provider.answer(TOOL), Provider.answer(Provider.text("It is \u202e late.")))
    done = demiurge("chat", "-m", "What time is it?", "--stream", "json")
    assert done.status == 0
    assert "\u202e" not in done.out
    *frames, reply = map(json.loads, done.out.splitlines())
    assert {"began", "tool_call_start", "tool_call_result", "text_delta"} <= {frame["type"] for frame in frames}
    assert "".join(frame["delta"] for frame in frames if frame["type"] == "text_delta") == "It is \u202e late."
    assert (reply["type"], reply["status"], reply["text"]) == ("reply", "done", "It is \u202e late.")
    assert [call["name"] for call in reply["tool_calls"]] == ["core__get_current_time"]


def test_a_stream_of_frames_ends_with_the_error(demiurge: Any, provider: Any) -> None:
    provider.say(provider.raw(b"{}", 400))
    failed = demiurge("chat", "-m", "Hello?", "--stream", "json")
    last = json.loads(failed.out.splitlines()[-1])
    assert (failed.status, last["type"], last["error"]["code"]) == (1, "reply", "invalid_request")
    refused = demiurge("chat", "-m", "Hello?", "--stream", "json", "--tools", "no_such_module")
    last = json.loads(refused.out.splitlines()[-1])
    assert (refused.status, last["type"]) == (1, "error")


@pytest.mark.parametrize("option", ["--stream=json", "--stdin"])
def test_options_for_one_turn_need_a_message(option: str, demiurge: Any) -> None:
    assert demiurge("chat", option).status == 2


@pytest.mark.parametrize("stream", [(), ("--stream", "json")])
def test_a_reader_that_leaves_breaks_nothing(
    stream: tuple[str, ...], process: Any, demiurge: Any, provider: Any
) -> None:
    provider.say(Provider.answer(TOOL, held=True), Provider.answer(Provider.text("It is late.")))
    reader, writer = os.pipe()
    chatting = process.start("chat", "-m", "What time is it?", *stream, stdout=writer)
    os.close(writer)
    assert provider.asked.wait(60)
    os.close(reader)
    provider.let_go.set()
    done = process.finish(chatting)
    assert done.status == 1
    assert "Traceback" not in done.err
    assert demiurge("chat", "export").document["messages"][-1]["text"] == "It is late."
    assert demiurge("journal", "verify").document["ok"] is True
