"""Fault points: off they do nothing, on they do what was asked, at the hit that was asked."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from demiurge import faults
from demiurge.errors import UsageError
from demiurge.faults import Fault, armed, parse, point

NAME = "journal.before_commit"


def test_nothing_happens_when_nothing_is_armed() -> None:
    for name in faults.POINTS:
        point(name)


@pytest.mark.parametrize(("action", "number"), [("enospc", errno.ENOSPC), ("eio", errno.EIO), ("erofs", errno.EROFS)])
def test_an_armed_point_raises_the_error_of_its_action(action: str, number: int) -> None:
    with armed({NAME: action}), pytest.raises(OSError, match=NAME) as caught:
        point(NAME)
    assert caught.value.errno == number
    point(NAME)


@pytest.mark.parametrize(
    ("fault", "fires"), [("eio", [1, 2, 3, 4]), ("eio@2", [2]), ("eio@2+", [2, 3, 4]), ("eio@9", [])]
)
def test_a_fault_fires_at_the_hits_it_names(fault: str, fires: list[int]) -> None:
    fired = []
    with armed({NAME: fault}):
        for hit in range(1, 5):
            try:
                point(NAME)
            except OSError:
                fired.append(hit)
            point("blob.before_rename")
    assert fired == fires


def test_any_exception_can_be_armed() -> None:
    with armed({NAME: KeyboardInterrupt}), pytest.raises(KeyboardInterrupt):
        point(NAME)
    with armed({NAME: Fault(ValueError("this one"), at=2)}):
        point(NAME)
        with pytest.raises(ValueError, match="this one"):
            point(NAME)


def test_inner_faults_are_added_and_taken_away_again() -> None:
    with armed({NAME: "eio"}):
        with armed({"blob.before_rename": "eio"}), pytest.raises(OSError, match="blob"):
            point("blob.before_rename")
        point("blob.before_rename")
        with pytest.raises(OSError, match=NAME):
            point(NAME)


def test_the_text_form() -> None:
    assert parse("") == {}
    assert parse(f"{NAME}=kill@3; blob.before_rename=enospc;blob.half_written=eio@2+;") == {
        NAME: Fault("kill", 3),
        "blob.before_rename": Fault("enospc"),
        "blob.half_written": Fault("eio", 2, onwards=True),
    }


@pytest.mark.parametrize(
    "text", ["no.such_point=kill", f"{NAME}=explode", NAME, f"{NAME}=kill@0", f"{NAME}=kill@x", "=kill"]
)
def test_a_fault_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def test_an_unknown_point_is_an_error_once_anything_is_armed() -> None:
    with armed({NAME: "eio@9"}), pytest.raises(UsageError, match=r"no\.such_point"):
        point("no.such_point")
    with pytest.raises(UsageError, match=r"no\.such_point"), armed({"no.such_point": "eio"}):
        pass


@pytest.mark.parametrize(("action", "status"), [("kill", -signal.SIGKILL), ("exit", faults.EXIT_STATUS)])
def test_the_environment_arms_a_process_that_then_dies_without_clean_up(action: str, status: int) -> None:
    code = f"""
from demiurge import faults
try:
    print('before', flush=True)
    faults.point({NAME!r})
    faults.point({NAME!r})
finally:
    print('after', flush=True)
"""
    environment = {**os.environ, faults.VARIABLE: f"{NAME}={action}@2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stdout == "before\n"
