"""What is printed: JSON in which nothing hides, logs without secrets, ids that can be read."""

from __future__ import annotations

import io
import json
import logging
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.cli import logs, main, output
from demiurge.cli.call_arguments import arguments
from demiurge.cli.settings import Settings

SPY = "\x1b\x7f\x9b\xad\u061c\u200b\u200f\u2028\u202e\u2066\ufeff\U000e0041"
UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def unseen(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) in UNSEEN}


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_json_says_what_it_holds_and_shows_all_of_it(value: dict[str, Any]) -> None:
    for text in (output.as_json(value), arguments(json.dumps(value))):
        assert json.loads(text) == value
        assert unseen(text) == set()


def test_indented_json_keeps_its_line_ends() -> None:
    text = output.as_json({"a": SPY + "\n"}, indent=2)
    assert unseen(text) == {"\n"}
    assert json.loads(text) == {"a": SPY + "\n"}
    assert r"\u001b\u007f\u009b\u00ad\u061c\u200b" in text


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ('{ "b" : 1.0,\n\n"a": "\\u0041" }', '{"a":"A","b":1}'),
        ('{"n": 123456789012345678901234567890}', '{"n":123456789012345678901234567890}'),
        ('{"a": 1, "a": 2}', r'"{\"a\": 1, \"a\": 2}"'),
        ("no\njson\u202e", r'"no\njson\u202e"'),
    ],
)
def test_arguments_are_one_line_and_whole(given_text: str, shown: str) -> None:
    assert arguments(given_text) == shown


def test_invisible_characters_of_a_model_are_spelled_out_in_every_export(demiurge: Any, provider: Any) -> None:
    call = {"path": f"a{SPY}", "text": SPY}
    provider.say(provider.answer(provider.call("workspace__write", call)))
    demiurge("chat", "-m", f"write {SPY.removeprefix(chr(27))}")
    [waiting] = demiurge("approvals", "ls", "--json").document["approvals"]
    for words in (
        ("approvals", "ls"),
        ("approvals", "ls", "--json"),
        ("approvals", "show", waiting["id"]),
        ("chat", "show", "--json"),
        ("chat", "export"),
        ("journal", "export"),
        ("journal", "export", "--json"),
    ):
        done = demiurge(*words)
        assert done.status == 0, words
        assert unseen(done.out) <= {"\n"}, words
    assert json.loads(waiting["arguments_json"]) == call


@pytest.mark.parametrize("as_json", [False, True])
def test_logs_have_no_user_in_a_url_and_no_requests(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(verbose=2, log_json=as_json))
    logging.getLogger("demiurge.test").debug("asking https://ada:s3cr3t@example.org/v1?x=a@b, and <mail@example.org>")
    for name in ("httpx", "httpcore", "httpcore.connection"):
        logging.getLogger(name).info("HTTP Request: POST https://example.org")
        logging.getLogger(name).warning("slow%s", SPY[0])
    said = capsys.readouterr().err
    assert "https://example.org/v1?x=a@b, and <mail@example.org>" in said
    assert "s3cr3t" not in said
    assert "HTTP Request" not in said
    assert said.count("slow") == 3
    assert unseen(said) == {"\n"}


def test_a_line_of_the_log_that_cannot_be_written_is_dropped_without_its_arguments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure(Settings())
    log = logging.getLogger("demiurge.test")
    with monkeypatch.context() as patch:
        stream = io.StringIO()
        patch.setattr(sys, "stderr", stream)
        stream.close()
        log.warning("asking %s", "https://ada:s3cr3t@example.org")
    assert capsys.readouterr().err == ""
    log.warning("and goes on")
    assert "and goes on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("chat_id", "words"),
    [
        ("\udcff", "not UTF-8"),
        ("a\nb", "control character"),
        ("a\x9bb", "control character"),
        ("", "1 to 256"),
        ("x" * 257, "1 to 256"),
    ],
)
def test_a_chat_id_that_nobody_could_type_is_refused(chat_id: str, words: str, demiurge: Any) -> None:
    done = demiurge("chat", chat_id, "-m", "hello")
    assert done.status == 2
    assert words in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("chat", "show", "\udcff"),
        ("chat", "export", "\udcff"),
        ("state", "get", "demiurge/Demiurge@1", "--key", "\udcff"),
        ("journal", "tail", "--unit", "\udcff"),
    ],
)
def test_bytes_that_are_no_text_are_refused_where_text_belongs(words: tuple[str, ...], demiurge: Any) -> None:
    demiurge("init")
    done = demiurge(*words)
    assert done.status == 2
    assert "not UTF-8 text" in done.err


NOISY = '''
import atexit, os, subprocess, sys
from demiurge.tools import ToolEffect, tool

print("noise: import")
if "pytest" not in sys.modules:
    atexit.register(print, "noise: exit")

@tool(effect=ToolEffect.READ_ONLY)
def shout(times: int) -> str:
    """Shout."""
    print("noise: print")
    sys.__stdout__.write("noise: old stream\\n")
    os.write(1, b"noise: descriptor\\n")
    subprocess.run([sys.executable, "-c", "print('noise: child')"], check=True)
    return "loud"
'''
NOISES = {"import", "exit", "print", "old stream", "descriptor", "child"}
CALL = ("tools", "call", "shout", '{"times": 2}', "--tools", "noisy", "--policy", "all.toml")


@pytest.fixture
def noisy(tmp_path: Path, environment: Any) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "all.toml").write_text('allowed_tools = ["shout"]\n')


@pytest.mark.usefixtures("noisy")
def test_output_that_tools_print_is_not_in_the_json_document(process: Any, demiurge: Any) -> None:
    for done, noises in ((process(*CALL, "--json"), NOISES), (demiurge(*CALL, "--json"), NOISES - {"exit"})):
        assert done.status == 0, done
        assert done.document["content"] == "loud"
        said = {line.removeprefix("noise: ") for line in done.err.splitlines() if line.startswith("noise: ")}
        assert said == noises
    assert "noise: print" in process(*CALL).out
    before = sys.stdout
    assert demiurge(*CALL, "--nonsense", "--json").document["error"]["code"] == "usage"
    assert demiurge("--json", *CALL[:2], "gone", "{}", *CALL[4:]).document["error"]
    assert sys.stdout is before


@pytest.mark.usefixtures("noisy")
def test_help_and_text_are_where_they_were(demiurge: Any) -> None:
    assert demiurge("--json", "tools", "--help").out.startswith("Usage: demiurge tools")
    demiurge(*CALL, "--json")
    assert "noise: print" in demiurge(*CALL).out


@pytest.mark.usefixtures("noisy")
def test_a_closed_stdout_is_not_reported_on_stderr(process: Any) -> None:
    leaving = process.start(*CALL, "--json")
    leaving.stdout.close()
    leaving.stdout = None
    done = process.finish(leaving)
    assert done.status == 1
    assert {line for line in done.err.splitlines() if not line.startswith("noise: ")} == set()


@pytest.mark.usefixtures("noisy")
def test_a_document_goes_where_stdout_was_replaced(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit):
        main((*CALL, "--json"))
    assert json.loads(out.getvalue())["content"] == "loud"
    assert sys.stdout is out
    assert "noise: print" in err.getvalue()
    assert "noise: child" in capfd.readouterr().err
