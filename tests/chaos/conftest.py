"""Every test here has an outside that remembers, and processes that it may kill."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:  # the processes and the tests share modules: `tests.chaos.*`
    sys.path.insert(0, ROOT)

from tests.chaos.child_control import Nursery  # noqa: E402
from tests.chaos.outside_observer import Outside  # noqa: E402


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    running = Nursery(tmp_path_factory.mktemp("told"))
    yield running
    running.close()


@pytest.fixture
def outside() -> Iterator[Outside]:
    running = Outside()
    yield running
    running.close()
