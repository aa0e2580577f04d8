"""Numbers, modules and limits that no command can go on with end in a sentence, and in no traceback."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HUGE = "99999999999999999999"
TOOLS = {
    "no mapping": "REDUCERS = 5\n",
    "names that are no text": "REDUCERS = {1: 2}\n",
    "no list of adapters": "ADAPTERS = 7\n",
    "no list of tools": "TOOLS = 5\n",
    "a BaseException": "class Odd(BaseException): pass\nraise Odd('no')\n",
    "an error without words": "class Odd(BaseException):\n    def __str__(self): raise ValueError\nraise Odd\n",
    "GeneratorExit": "raise GeneratorExit\n",
    "no Python": "def\n",
}


def is_plain(done: Any) -> bool:
    return (
        done.status in (1, 2) and "should not" not in done.err and "Traceback" not in done.err and "error:" in done.err
    )


@pytest.mark.parametrize(
    "words",
    [
        ("state", "get", "demiurge/Demiurge@1", "--key", "main", "--at", HUGE),
        ("fork", "f", "--at", HUGE),
        ("journal", "seal", "--at", HUGE),
        ("journal", "prove", HUGE),
        ("ws", "ls", f"main@{HUGE}"),
    ],
)
def test_a_number_beyond_all_counting_is_not_here(words: tuple[str, ...], demiurge: Any) -> None:
    demiurge("init")
    assert is_plain(demiurge(*words))


@pytest.mark.parametrize("words", [("gc", "--keep", "1e308"), ("journal", "archive", "--keep", "1e308")])
def test_an_unlimited_retention_keeps_everything(words: tuple[str, ...], demiurge: Any) -> None:
    demiurge("init")
    assert demiurge(*words).status == 0


@pytest.mark.parametrize("code", TOOLS.values(), ids=TOOLS)
def test_a_module_that_can_not_be_used_is_named(code: str, demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "odd_tools.py").write_text(code)
    done = demiurge("init", "--tools", "odd_tools")
    assert is_plain(done)
    assert "odd_tools" in done.err


def test_a_message_that_is_no_text_is_told(process: Any) -> None:
    done = process("chat", "-m", os.fsdecode(b"\xff\xfe"))
    assert (done.status, "not UTF-8" in done.err) == (2, True)


def test_a_file_in_the_place_of_the_folder_for_sockets_is_told(
    demiurge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(place))
    (place / f"demiurge-{os.getuid()}").write_text("in the way")
    folder = tmp_path / ("long" * 30)
    done = demiurge("-w", str(folder), "init")
    assert is_plain(done)
    assert "move it away" in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory count on Linux only")
@pytest.mark.parametrize(
    ("limit", "most"),
    [*((resource.RLIMIT_NOFILE, most) for most in (5, 6, 7, 8, 10, 12)), (resource.RLIMIT_AS, 220 << 20)],
)
def test_too_little_of_the_machine_ends_in_a_sentence(limit: int, most: int, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demiurge.cli", "init"],
        env=environment,
        preexec_fn=lambda: resource.setrlimit(limit, (most, most)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "should not" not in done.stderr
    assert done.returncode in (0, 1)


def test_a_folder_without_access_rights_is_told(process: Any, tmp_path: Path, environment: dict[str, str]) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    command = [sys.executable, "-m", "demiurge.cli", "-w", str(closed / "w"), "journal", "head"]
    if os.geteuid() == 0:  # whom no mode keeps out unless this is taken from it
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    closed.chmod(stat.S_IRWXU)
    assert done.returncode == 1
    assert "should not" not in done.stderr
    assert "Permission denied" in done.stderr or "can't be" in done.stderr
