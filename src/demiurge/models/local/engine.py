"""The local engine: a separate process that serves the local model on loopback (`serve.py`).

Invariant: the engine ends with its owner. It is a separate process because native code that stops, crashes or hangs
must not take a durable world with it, and because loading blocks an interpreter for seconds. Its messages stay off the
user's terminal unless `verbose`; only this object knows its random key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from demiurge.errors import Unavailable
from demiurge.models.local.fetch import Progress
from demiurge.models.local.template import CHAT_TEMPLATE
from demiurge.models.local.weights import LOCAL_MODEL, folder, locate
from demiurge.values.clock import Entropy, SystemEntropy

__all__ = ["LocalEngine"]

_SERVE = Path(__file__).with_name("serve.py")
_CONTEXT = 16_384
_CONTEXT_SMALL = 8_192
_AMPLE_MEMORY = 4 << 30
_LEAVE_SECONDS = 2.0


class LocalEngine:
    """The engine of one model file. `start` loads it (takes seconds and 2 GB of memory), `stop` frees it; both may be
    repeated.

    `base_url` is `http://127.0.0.1:PORT/v1`, `api_key` 32 hex digits, new at every start; `context` is in tokens;
    `path` is the model's file, and `prompts` the folder beside the weights in which the server keeps what it has read.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        context: int | None = None,
        verbose: bool = False,
        entropy: Entropy | None = None,
    ) -> None:
        self._path = path
        self._entropy = entropy or SystemEntropy()
        self._verbose = verbose
        self._process: subprocess.Popen[str] | None = None
        self.context = context or (_CONTEXT if _memory() >= _AMPLE_MEMORY else _CONTEXT_SMALL)
        self.model = LOCAL_MODEL.name
        self.path = Path()
        self.prompts = Path()
        self.base_url = ""
        self.api_key = ""

    @property
    def running(self) -> bool:
        """Returns whether the process runs; `start` restarts one that died."""
        return self._process is not None and self._process.poll() is None

    def start(self, progress: Callable[[Progress], None] = lambda _: None) -> None:
        """Loads the model and listens; blocks while it loads. Raises Unavailable if the weights, the `local` extra, or
        free memory are missing."""
        if self.running:
            return
        self.stop()
        path = self._path or locate()
        if path is None or not path.is_file():
            raise Unavailable(
                "The local model is not on this machine: fetch it with `demiurge model fetch`, or set the key of a "
                "provider (LLM_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY).",
                code="model_unavailable",
            )
        size = path.stat().st_size
        self.path, self.prompts = path, _made(folder() / f"{path.name}.prompts")
        progress(Progress("load", 0, size))
        key = self._entropy.token(16).hex()
        process = subprocess.Popen(  # noqa: S603 - our own file, under our own interpreter
            [sys.executable, "-I", str(_SERVE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if self._verbose else subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C must not reach the engine, which ends when its input closes
        )
        self._process = process
        try:
            answer = _ask(process, self._request(path, key))
        except BaseException:
            self.stop()
            raise
        if "listening" not in answer:
            self.stop()
            raise _refusal(answer.get("error"), path)
        self.api_key = key
        self.base_url = f"{answer['listening'].rstrip('/')}/v1"
        progress(Progress("load", size, size))

    def stop(self) -> None:
        """Ends the process, by force if need be, and frees the memory."""
        process, self._process = self._process, None
        self.base_url = self.api_key = ""
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _request(self, path: Path, key: str) -> str:
        return json.dumps(
            {
                "path": str(path),
                "name": self.model,
                "context": self.context,
                "prompts": f"{self.prompts}{os.sep}",
                "api_key": key,
                "chat_template": CHAT_TEMPLATE,
                "verbose": self._verbose,
            }
        )


def _made(place: Path) -> Path:
    """Makes the folder of kept prompts, for its user alone. One that can't be made keeps nothing."""
    with suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def _ask(process: subprocess.Popen[str], request: str) -> dict[str, str]:
    """Sends the one request and returns the one answer; an empty one if the process died."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.write(request + "\n")
        process.stdin.flush()
    line = process.stdout.readline()
    answer: dict[str, str] = json.loads(line) if line.endswith("\n") else {}
    return answer


def _refusal(code: str | None, path: Path) -> Unavailable:
    if code == "engine_missing":
        return Unavailable(
            "The local engine is not installed: run `pip install 'demiurge-runtime[local]'`, or set a key.",
            code=code,
        )
    return Unavailable(
        f"The local engine could not load {path}: it is no model file, or memory is short.",
        code="model_unavailable",
    )


def _memory() -> int:
    """Returns the free memory in bytes, or all memory if the system does not report it."""
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
