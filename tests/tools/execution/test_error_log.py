"""An author sees why a tool failed, where it was asked for and nowhere else."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest

from demiurge import ToolEffect, ToolPolicy, ToolResult, ToolRunner, ToolUserError, ToolValidationError, tool
from demiurge.tools import LoopSignal, ToolErrorCode, ToolErrorLog, ToolFailure
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.execution.error_log import MAX_REPORT

CANARY = "canary-4711-canary"


def failing(error: BaseException) -> Any:
    @tool(effect=ToolEffect.READ_ONLY)
    def fail(number: int) -> ToolResult[None]:
        """Fails."""
        raise error

    return fail


def failing_later(error: BaseException) -> Any:
    @tool(effect=ToolEffect.READ_ONLY)
    async def fail(number: int) -> ToolResult[None]:
        """Fails."""
        await asyncio.sleep(0)
        raise error

    return fail


def runner_of(made: Any, **options: Any) -> ToolRunner:
    return ToolRunner([made], policy=ToolPolicy((made.name,)), **options)


@pytest.mark.parametrize("make", [failing, failing_later])
@pytest.mark.parametrize("sync", [False, True])
async def test_with_the_option_type_message_and_traceback_are_on_stderr(
    make: Any, sync: bool, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    runner = runner_of(make(ValueError(CANARY)), log_tool_errors=True)
    if sync:
        result = await asyncio.to_thread(runner.exec_sync, "fail", {"number": 1}, tool_call_id="c1")
    else:
        result = await runner.exec("fail", {"number": 1}, tool_call_id="c1")
    out, err = capfd.readouterr()
    assert out == ""
    assert "handler of fail (call c1) raised ValueError" in err
    assert "Traceback (most recent call last)" in err
    assert f"raise error\nValueError: {CANARY}" in err
    assert "test_error_log.py" in err
    assert CANARY not in caplog.text
    assert CANARY not in f"{result!r} {result.content} {result.record.public()}"
    assert result.error_code == "execution"


def test_without_it_the_log_says_where_to_look(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    runner_of(failing(ValueError(CANARY))).exec_sync("fail", {"number": 1})
    assert CANARY not in "".join(capfd.readouterr()) + caplog.text
    [line] = caplog.messages
    assert line.startswith("tool call: handler of fail raised ValueError at ")
    assert "test_error_log.py" in line
    assert "`demiurge -v`, or `log_tool_errors=True` in Python" in line


def test_an_error_of_a_library_is_placed_at_the_line_of_the_author(caplog: pytest.LogCaptureFixture) -> None:
    @tool(effect=ToolEffect.READ_ONLY)
    def fail(number: int) -> ToolResult[None]:
        """Fails in Python's own library."""
        raise AssertionError(json.loads("{"))

    runner_of(fail).exec_sync("fail", {"number": 1})
    [line] = caplog.messages
    assert "raised JSONDecodeError at " in line
    assert f"{__file__}:" in line


SCRIPT = """
import logging, sys
from demiurge import ToolPolicy, ToolRunner, tool
{setup}
@tool()
def fail() -> int:
    "Fails."
    raise ValueError("canary")

print(ToolRunner([fail], policy=ToolPolicy(("fail",))).exec_sync("fail", {{}}).error_code)
"""


@pytest.mark.parametrize(
    ("setup", "lines"),
    [
        ("", 1),
        ("logging.basicConfig()", 1),
        ("logging.getLogger().addHandler(logging.NullHandler())", 0),
        ("logging.getLogger('demiurge').addHandler(logging.StreamHandler())", 1),
        ("logging.getLogger('demiurge').setLevel(logging.ERROR)", 0),
        ("logging.lastResort = None", 0),
    ],
)
def test_a_program_sees_that_line_once_unless_its_logging_says_no(setup: str, lines: int) -> None:
    """As Python shows the warnings of any library where an application has not set logging up."""
    script = SCRIPT.format(setup=setup)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "execution\n"
    assert len(done.stderr.splitlines()) == lines, done.stderr
    assert done.stderr.count("log_tool_errors=True") == lines
    assert "canary" not in done.stderr


@pytest.mark.parametrize(
    "error",
    [
        ToolUserError("There is none."),
        ToolValidationError("a must be even"),
        ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME),
        LoopSignal("stop"),
    ],
)
def test_an_error_that_a_handler_raises_on_purpose_is_not_logged_as_a_fault(error: BaseException) -> None:
    explained: list[str] = []
    runner = runner_of(failing(error), log_tool_errors=ToolErrorLog(explained.append))
    with suppress(LoopSignal):
        runner.exec_sync("fail", {"number": 1})
    assert explained == []


@pytest.mark.parametrize("kind", [ToolUserError, ToolValidationError])
def test_the_cause_of_a_user_error_is_logged(kind: Any) -> None:
    @tool(effect=ToolEffect.READ_ONLY)
    def fail(number: int) -> ToolResult[None]:
        """Fails."""
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise kind("There is none.") from cause

    explained: list[str] = []
    result = runner_of(fail, log_tool_errors=ToolErrorLog(explained.append)).exec_sync("fail", {"number": 1})
    assert CANARY in explained[0]
    assert CANARY not in result.content


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-live-0123456789")
    error = ValueError("no access with sk-live-0123456789 at https://ada:pass@example.com")
    runner_of(failing(error), log_tool_errors=True).exec_sync("fail", {"number": 1})
    err = capfd.readouterr().err
    assert "no access with [SHOP_API_KEY] at https://example.com" in err
    assert "sk-live" not in err
    assert "pass" not in err.replace("test_", "")
    explained: list[str] = []
    log = ToolErrorLog(explained.append, secrets=lambda: [Secret("hunter22")], environment={})
    runner_of(failing(ValueError("no hunter22")), log_tool_errors=log).exec_sync("fail", {"number": 1})
    assert "no [secret]" in explained[0]


def test_nothing_in_a_message_moves_the_terminal() -> None:
    explained: list[str] = []
    log = ToolErrorLog(explained.append)
    runner_of(failing(ValueError("\x1b[2Jgone\u202e")), log_tool_errors=log).exec_sync("fail", {"number": 1})
    assert "\x1b" not in explained[0]
    assert "\u202e" not in explained[0]


def test_a_long_message_loses_its_middle() -> None:
    explained: list[str] = []
    log = ToolErrorLog(explained.append)
    error = ValueError("x" * 40 * MAX_REPORT + "end")
    runner_of(failing(error), log_tool_errors=log).exec_sync("fail", {"number": 1})
    assert len(explained[0]) < MAX_REPORT + 200
    assert "characters are left out" in explained[0]
    assert explained[0].endswith("xend")


def test_a_log_that_breaks_costs_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise OSError("closed")

    runner = runner_of(failing(ValueError()), log_tool_errors=ToolErrorLog(broken))
    assert runner.exec_sync("fail", {"number": 1}).error_code == "execution"
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        runner = runner_of(failing(ValueError()), log_tool_errors=True)
        assert runner.exec_sync("fail", {"number": 1}).error_code == "execution"


def test_a_result_without_its_form_is_shown_too() -> None:
    @tool(effect=ToolEffect.READ_ONLY)
    def count() -> int:
        """Counts."""
        return "many"  # type: ignore[return-value]

    explained: list[str] = []
    result = runner_of(count, log_tool_errors=ToolErrorLog(explained.append)).exec_sync("count", {})
    assert result.error_code == "output_validation"
    assert "result of count" in explained[0]
    assert "ToolValidationError" in explained[0]
