"""Processes that are forked and killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.testing import mail_tools

from demiurge.errors import UsageError
from demiurge.testing.crash.fork_client import ForkServer, target_of


def test_processes_run_at_the_same_time_and_end_by_themselves_or_by_a_signal(tmp_path: Path) -> None:
    with ForkServer() as server:
        server.load(target_of(mail_tools.waits))
        waiting = server.start(target_of(mail_tools.waits), {"for_what": "nothing"}, tmp_path / "errors")
        left = [server.start(target_of(mail_tools.leaves), {"status": at}, tmp_path / f"{at}") for at in (0, 3)]
        assert [each.wait() for each in left] == [0, 3]
        assert waiting.wait(0.01) is None
        waiting.kill()
        assert waiting.wait() == -signal.SIGKILL
        waiting.kill()
        wrong = server.start(target_of(mail_tools.leaves), {"state": 1}, tmp_path / "wrong")
        assert wrong.wait() == 70
        assert "TypeError" in (tmp_path / "wrong").read_text()
        running = server.start(target_of(mail_tools.waits), {"for_what": "the end"}, tmp_path / "errors")
    assert running.ended.is_set()


def test_a_module_that_can_not_be_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no mail server')")
    target = {"module": "broken_module", "file": str(tmp_path / "broken.py"), "function": "build"}
    with (
        ForkServer() as server,
        pytest.raises(UsageError, match=r"(?s)broken_module can't be imported.*no mail server"),
    ):
        server.load(target)
