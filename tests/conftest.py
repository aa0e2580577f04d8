"""What every test may rely on."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from ssl import SSLContext
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from tests.shell.browsers import CHROMIUM, NOT_RUN

from demiurge.models.local.weights import cache_folder

# A shell that starts the suite in the background has Ctrl-C ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts on time: neither how long an example takes nor how long it takes to make one.
settings.register_profile("demiurge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("demiurge")

# What was imported and collected stays until the end: to look through it again and again took an eighth of the suite.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is noted in the home folder of whoever runs the suite; only the local model is taken from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEMIURGE_CACHE", str(cache_folder()))
        patch.setenv("DEMIURGE_LOCAL_MODEL_STAYS", "0")
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "DEMIURGE_VAULT", "DEMIURGE_VAULT_KEY"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates() -> Iterator[None]:
    """Reads the certificates of this machine once: it takes 50 ms, and thousands of tests open clients for HTTP."""
    read: Callable[[str | None, tuple[tuple[str, Any], ...]], SSLContext]
    read = cache(lambda _file, options: httpx.create_ssl_context(**dict(options)))

    def create(**options: Any) -> SSLContext:
        return read(os.environ.get("SSL_CERT_FILE"), tuple(options.items()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", create)
        yield


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """Logs go after a test where they went before it, also when it ran a command in this process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.setLevel(level)
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
    logging.captureWarnings(False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves two of three cases of a `sampled` test to full runs."""
    seen = Counter[str]()
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % 3:
                item.add_marker(pytest.mark.full)
            seen[test] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CHROMIUM is None:
        terminalreporter.write_line(NOT_RUN, yellow=True)
