"""The local engine: a separate process that serves the local model on loopback (`serve.py`).

Invariant: the engine ends with its owner, or a few minutes after it (`left_engine.py`): then the next owner finds it.
It is a separate process because native code that stops, crashes or hangs must not take a durable world with it, and
because loading blocks an interpreter for seconds. Its messages stay off the user's terminal unless `verbose`; only this
user knows its random key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from demiurge.errors import Unavailable
from demiurge.models.local.fetch import Progress
from demiurge.models.local.left_engine import EngineLease, is_alive
from demiurge.models.local.template import CHAT_TEMPLATE
from demiurge.models.local.weights import LOCAL_MODEL, folder, locate
from demiurge.values.clock import Entropy, SystemEntropy

__all__ = ["LocalEngine"]

_SERVE = Path(__file__).with_name("serve.py")
_CONTEXT = 16_384
_CONTEXT_SMALL = 8_192
_AMPLE_MEMORY = 4 << 30
_LEAVE_SECONDS = 2.0

_LEFT: list[subprocess.Popen[str]] = []
"""The engines that this process has left running. They are kept, so that their ends are noticed."""


class LocalEngine:
    """The engine of one model file. `start` loads it (takes seconds and 2 GB of memory), `stop` frees it; both may be
    repeated. With `stays_s`, `stop` leaves it running for so many seconds, and `start` takes one that was left.

    `base_url` is `http://127.0.0.1:PORT/v1`, `api_key` 32 hex digits, new at every start; `context` is in tokens;
    `path` is the model's file, and `prompts` the folder beside the weights in which the server keeps what it has read;
    `known_prompt` is the name of the fixed part of a prompt that it knows now, "" for none.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        context: int | None = None,
        verbose: bool = False,
        entropy: Entropy | None = None,
        stays_s: float = 0.0,
    ) -> None:
        self._path = path
        self._entropy = entropy or SystemEntropy()
        self._verbose = verbose
        self._process: subprocess.Popen[str] | None = None
        self._stays_s = stays_s
        self._lease: EngineLease | None = None
        self.known_prompt = ""
        self.context = context or (_CONTEXT if _memory() >= _AMPLE_MEMORY else _CONTEXT_SMALL)
        self.model = LOCAL_MODEL.name
        self.path = Path()
        self.prompts = Path()
        self.base_url = ""
        self.api_key = ""

    @property
    def running(self) -> bool:
        """Returns whether the process runs; `start` restarts one that died."""
        if self._process is not None:
            return self._process.poll() is None
        return self._lease is not None and is_alive(self._lease.folder)

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
        self.path, self.prompts = path, prompts_folder(path)
        with suppress(OSError):  # a folder that can't be made keeps nothing
            self.prompts.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._stays_s and self._takes_left_engine():
            return
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

    def _takes_left_engine(self) -> bool:
        """Takes the engine that was left for this model and program, if there is one. Else ends the one that was left,
        and this engine will be left at its end."""
        lease = EngineLease.taken(self.prompts)
        if lease is None:
            return False
        left = lease.engine()
        if left is not None and left.made_for == self._made_for():
            self._lease = lease
            self.base_url, self.api_key, self.context = left.base_url, left.api_key, left.context
            self.known_prompt = left.known_prompt
            return True
        if lease.end_engine():
            self._lease = lease
        else:
            lease.give_back()
        return False

    def _made_for(self) -> str:
        """Returns what an engine must have been made for to be this one: its program, its model, its template."""
        found = self.path.stat()
        parts = (version("xllamacpp"), str(self.path), found.st_size, found.st_mtime_ns, CHAT_TEMPLATE)
        return sha256(json.dumps([_SERVE.read_text("utf-8"), *parts]).encode()).hexdigest()

    def note_known_prompt(self, name: str) -> None:
        """Notes the name of the fixed part of a prompt that the engine has read, also for a later owner."""
        if self.known_prompt != name:
            self.known_prompt = name
            if self._lease is not None:
                self._lease.note_known_prompt(name)

    def stop(self) -> None:
        """Ends the process, by force if need be, and frees the memory; or leaves the engine running for its time."""
        lease, self._lease = self._lease, None
        process, self._process = self._process, None
        self.base_url = self.api_key = self.known_prompt = ""
        stays = lease is not None and is_alive(lease.folder)
        if process is not None:
            _let_go(process) if stays else _end(process)
        if lease is not None:
            lease.give_back()

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
                "stays_s": self._stays_s if self._lease is not None else 0,
                "made_for": self._made_for() if self._lease is not None else "",
            }
        )


def prompts_folder(weights: Path) -> Path:
    """Returns the folder for what engines of these weights have read; it may be missing."""
    return folder() / f"{weights.name}.prompts"


def _end(process: subprocess.Popen[str]) -> None:
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


def _let_go(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    _LEFT[:] = [each for each in (*_LEFT, process) if each.poll() is None]


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
