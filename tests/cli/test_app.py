"""The command as a whole: help, lazy imports, global options anywhere, errors and exit statuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from demiurge.cli.app import NOUNS, application

HEAVY = ("httpx", "pydantic", "pydantic_core", "sqlite3", "cbor2", "asyncio")


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom demiurge.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
    for noun in NOUNS:
        assert noun in done.stdout


def test_a_late_ctrl_c_keeps_the_exit_status_and_ends_the_wait_for_threads() -> None:
    """The thread never ends, and says when the program is about to leave."""
    program = """
import signal, sys, threading, time
from demiurge.cli import main

def told():
    for _ in range(3000):
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            break
        time.sleep(0.01)
    else:
        return
    print("leaving", flush=True)
    threading.Event().wait()

threading.Thread(target=told).start()
sys.argv = ["demiurge", "nothing-of-this-name"]
main()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "leaving\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 2


def test_each_noun_has_a_module_with_its_command() -> None:
    context = application.make_context("demiurge", [], resilient_parsing=True)
    for noun in NOUNS:
        command = application.get_command(context, noun)
        assert command is not None
        assert command.name == noun
        assert command.help


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "-w", "WORLD", "state", "ls", "demiurge/Demiurge@1"),
        ("state", "--json", "-w", "WORLD", "ls", "demiurge/Demiurge@1"),
        ("state", "ls", "demiurge/Demiurge@1", "-w", "WORLD", "--json"),
        ("-w", "/nowhere", "state", "ls", "-w", "WORLD", "demiurge/Demiurge@1", "--json"),
    ],
)
def test_global_options_may_stand_anywhere(words: tuple[str, ...], demiurge: Any, world: Path) -> None:
    assert demiurge("init").status == 0
    done = demiurge(*(str(world) if word == "WORLD" else word for word in words))
    assert done.status == 0
    assert done.document == {"module": "demiurge/Demiurge@1", "keys": []}


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("blob", "put"),
        ("blob", "get", "x", "--raw", "--json"),
        ("state", "get", "m", "--nonsense"),
        ("chat", "--json"),
        ("chat", "--message", " "),
        ("journal", "tail", "-n", "many"),
        ("journal", "tail", "-f", "--json"),
        ("-w", "ftp://127.0.0.1:7777", "journal", "head"),
    ],
)
def test_wrong_usage_is_status_2(words: tuple[str, ...], demiurge: Any) -> None:
    done = demiurge(*words)
    assert done.status == 2
    if "--json" in words:
        assert done.document["error"]["code"] == "usage"
    elif done.out == "":
        assert done.err.startswith("error: ")
        assert "--help" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("state", "get", "demiurge/Demiurge@1", "--key", "a"),
        ("blob", "get", "sha256:" + "0" * 64),
        ("journal", "verify"),
        ("journal", "export"),
        ("replay",),
        ("manifest", "get"),
        ("approvals", "ls"),
        ("approvals", "approve", "abc"),
        ("chat", "ls"),
        ("chat", "show"),
    ],
)
def test_looking_makes_no_world(words: tuple[str, ...], demiurge: Any, world: Path) -> None:
    done = demiurge(*words)
    assert done.status == 1
    assert "demiurge init" in done.err
    assert not world.exists()
    done = demiurge(*words, "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == "no_world"
    assert done.err == ""


def test_init_again_changes_nothing(demiurge: Any, world: Path) -> None:
    first = demiurge("init", "--json").document
    assert first["world"] == str(world)
    assert first["created"] is True
    second = demiurge("init", "--json").document
    del first["token"]
    assert second == {**first, "created": False}
    assert str(world) in demiurge("init").out


def test_without_an_option_the_world_is_in_the_current_folder(
    demiurge: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DEMIURGE_WORLD")
    assert demiurge("init", "--json").document["world"] == str(tmp_path / ".demiurge")


def test_a_fault_of_our_own_is_a_sentence_and_a_traceback_only_on_request(
    demiurge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demiurge.cli.blob.read_bytes", lambda _: 1 // 0)
    done = demiurge("blob", "put", "x")
    assert done.status == 1
    assert "ZeroDivisionError" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in demiurge("blob", "put", "x", "-vv").err


def test_logs_are_json_lines_on_request_and_hold_no_secret(process: Any, provider: Any) -> None:
    key = process.environment["LLM_API_KEY"]
    provider.say(provider.raw(json.dumps({"error": {"message": f"bad key {key}"}}).encode(), 401))
    done = process("chat", "-m", "hello", "-vv", "--log-json")
    assert done.status == 1
    lines = [line for line in done.err.splitlines() if line.startswith("{")]
    assert lines
    for line in lines:
        assert {"time", "level", "logger", "message"} <= set(json.loads(line))
    assert key not in done.err + done.out


def test_a_reader_that_stops_reading_is_no_error(process: Any) -> None:
    process("init")
    running = process.start("manifest", "get")
    running.stdout.close()
    assert running.wait(30) in {0, 1}
    assert "Traceback" not in running.stderr.read()
    running.stderr.close()


@pytest.mark.parametrize("words", [(), ("blob",)])
def test_a_noun_alone_shows_what_there_is(words: tuple[str, ...], demiurge: Any) -> None:
    done = demiurge(*words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"Usage: {' '.join(('demiurge', *words))} [OPTIONS]")
    told = demiurge(*words, "--json")
    assert (told.status, told.document["error"]) == (2, {"code": "usage", "message": "Missing command."})


def test_a_misspelled_command_is_answered_with_the_similar_one(demiurge: Any) -> None:
    assert "No such command 'aprovals'. Did you mean 'approvals'?" in demiurge("aprovals", "ls").err


def test_the_option_that_approves_every_call_is_not_suggested(demiurge: Any) -> None:
    assert "--yes'" not in demiurge("chat", "--yess").err
    assert "Did you mean '--message'?" in demiurge("chat", "--mesage", "hi").err


def test_a_question_ends_with_its_mark(demiurge: Any) -> None:
    assert demiurge("tools", "lss").err.endswith("Did you mean 'ls'? See `demiurge tools --help`.\n")


def test_a_reader_that_goes_away_is_no_failure_to_be_told(process: Any, world: Path) -> None:
    assert process("init").status == 0
    leaving = process.start("manifest", "get")  # more than a pipe holds
    assert leaving.stdout is not None
    leaving.stdout.close()
    leaving.stdout = None
    done = process.finish(leaving)
    assert (done.status, done.err) == (1, "")


@pytest.mark.parametrize("words", [("init",), ("chat", "-m", "hello"), ("journal", "head")])
def test_a_file_is_no_world(words: tuple[str, ...], demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = demiurge("-w", "notes.txt", *words)
    assert (done.status, done.err) == (1, "error: notes.txt is a file: name the folder of a world with -w.\n")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "noun", ["approvals", "connections", "defs", "doubts", "issues", "secrets", "tokens", "tools", "webhooks"]
)
def test_a_noun_without_a_verb_lists(noun: str, demiurge: Any) -> None:
    demiurge("init")
    listed, named = demiurge(noun), demiurge(noun, "ls")
    assert (listed.status, listed.out) == (0, named.out)
    assert (
        demiurge("--json", noun).document
        == demiurge(noun, "--json").document
        == demiurge(noun, "ls", "--json").document
    )
    assert (demiurge(noun, "lss").status, demiurge(noun, "--nonsense").status) == (2, 2)
    told = demiurge(noun, "--help")
    assert (told.status, f"Usage: demiurge {noun} [OPTIONS] [COMMAND] [ARGS]..." in told.out) == (0, True)


def test_a_noun_whose_list_needs_an_argument_wants_a_verb(demiurge: Any) -> None:
    assert demiurge("state").status == 2
    assert demiurge("event").status == 2
