"""Recorded worlds, unpacked, and the command line in the environment of who recorded them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving
from tests.recorded.record import KEY
from tests.recorded.unpacking import Recording, unpack

from demiurge.cli import main
from demiurge.values.clock import SystemClock


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        running.say(running.answer(running.text("Still here.")))
        yield running


@pytest.fixture
def recording(
    request: pytest.FixtureRequest, tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Recording]:
    """The worlds of `RECORDED`, the name of a file, a moment after they were recorded, and an environment of who
    recorded them."""
    found = unpack(request.module.RECORDED, tmp_path / "recorded")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "DEMIURGE_VAULT", "DEMIURGE_VAULT_KEY", "DEMIURGE_KEPT_CODE"):
        monkeypatch.delenv(name, raising=False)
    given = {"HOME": str(found.home), "LLM_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "OPENAI_BASE_URL": provider.url}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    then, began = found.facts["recorded_until_ns"], SystemClock().monotonic_ns()
    monkeypatch.setattr(SystemClock, "now_ns", lambda self: then + self.monotonic_ns() - began)
    path, modules = list(sys.path), set(sys.modules)
    yield found
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def demiurge(recording: Recording, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run a command on a recorded world: `demiurge("desk", "journal", "verify")` is the document that it prints."""

    def run(world: str, *arguments: str) -> Any:
        capfd.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main(["--json", "-w", str(recording.world(world)), *arguments])
        out, err = capfd.readouterr()
        assert leaving.value.code == 0, out + err
        return json.loads(out)

    return run
