"""The command line, run in this process or in one of its own, against a provider on a loopback socket."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge.cli import main

KEY = "sk-test-0123456789abcdef"
QUICK = 30.0


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What was printed, which must be one JSON document and nothing else."""
        return json.loads(self.out)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Where the test's world is, or will be."""
    return tmp_path / "world"


@pytest.fixture
def environment(world: Path, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What commands find in the environment: a key, the provider, the world; nothing of the machine's own."""
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "DEMIURGE_LOCAL_MODEL",
        "NO_COLOR",
        "DEMIURGE_FAULTS",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    given = {
        "LLM_API_KEY": KEY,
        "OPENAI_BASE_URL": provider.url,
        "DEMIURGE_WORLD": str(world),
        "DEMIURGE_CACHE": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return dict(os.environ)


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path) -> Iterator[None]:
    """What one test had imported by `--tools` is not there for the next."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def callable_tools(done: Done) -> list[dict[str, Any]]:
    """Returns the callable tools that `tools ls --json` printed."""
    return [tool for tool in done.document["tools"] if tool["kind"] == "callable"]


Run = Callable[..., Done]


@pytest.fixture
def demiurge(environment: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process: `demiurge("blob", "put", "x", stdin=b"...")`."""

    def run(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        out, err = capfd.readouterr()
        assert isinstance(leaving.value.code, int)
        return Done(leaving.value.code, out, err)

    return run


@dataclass(frozen=True)
class Processes:
    """Commands in processes of their own; `given` is added to their environment."""

    environment: Mapping[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *arguments: str, stdin: str = "", given: Mapping[str, str] | None = None) -> Done:
        return self.finish(self.start(*arguments, given=given, stdin=subprocess.PIPE), stdin)

    def start(self, *arguments: str, given: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "demiurge.cli", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen(command, env={**self.environment, **(given or {})}, text=True, **pipes)
        self.started.append(process)
        return process

    def end(self) -> None:
        """Leave nothing behind: a test that failed would else break another one with what it left running."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def finish(self, process: subprocess.Popen[str], stdin: str | None = None) -> Done:
        out, err = process.communicate(stdin, timeout=QUICK)
        return Done(process.returncode, out, err)


@pytest.fixture
def process(environment: dict[str, str]) -> Iterator[Processes]:
    running = Processes(environment)
    yield running
    running.end()
