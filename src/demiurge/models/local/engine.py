"""The local engine: llama.cpp's server inside this process, on loopback, for the local model.

Invariant: the server listens on 127.0.0.1 only, on a port the system picks, behind a random key, without its
web page, without CORS and without network access of its own; nothing else on the machine may spend the
model's time, and no page in a browser can reach it. Its native log stays off the user's terminal unless
`verbose`.

The settings are measured, not guessed: temperature 0 (at 0.8 calls go wrong), one thread fewer than cores for
generation (all cores on a busy machine: ten times slower), 256 MiB of prompt cache in place of the default 8
GiB.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demiurge.errors import Unavailable
from demiurge.models.local.fetch import Progress
from demiurge.models.local.template import CHAT_TEMPLATE
from demiurge.models.local.weights import LOCAL_MODEL, locate
from demiurge.values.clock import Entropy, SystemEntropy

__all__ = ["LocalEngine"]

_CONTEXT = 16_384
_CONTEXT_SMALL = 8_192
_AMPLE_MEMORY = 4 << 30
_CACHE_MIB = 256
_QUIET = -1
_CHATTY = 4


class LocalEngine:
    """The engine of one model file. `start` loads it (seconds; 2 GB of memory), `stop` frees it; both may be
    repeated.

    Shapes: `base_url` is `http://127.0.0.1:PORT/v1`, `api_key` 32 hex digits, new at every start, `context`
    tokens.
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
        self._server: Any = None  # an object of a native module without types
        self.context = context or (_CONTEXT if _memory() >= _AMPLE_MEMORY else _CONTEXT_SMALL)
        self.model = LOCAL_MODEL.name
        self.base_url = ""
        self.api_key = ""

    @property
    def running(self) -> bool:
        return self._server is not None

    def start(self, progress: Callable[[Progress], None] = lambda _: None) -> None:
        """Load the model and listen. Raises Unavailable without the weights, the `local` extra, or memory
        enough.

        Blocks, and holds the interpreter for the few seconds of loading: call it before serving others.
        """
        if self._server is not None:
            return
        path = self._path or locate()
        if path is None or not path.is_file():
            raise Unavailable(
                "The local model is not on this machine: fetch it with `demiurge model fetch`.",
                code="model_unavailable",
            )
        size = path.stat().st_size
        progress(Progress("load", 0, size))
        native = _native()
        self.api_key = self._entropy.token(16).hex()
        try:
            self._server = native.Server(self._settings(native, path))
        except RuntimeError as error:
            raise Unavailable(
                f"The local engine could not load {path}: it is no model file, or memory is short.",
                code="model_unavailable",
            ) from error
        self.base_url = f"{self._server.listening_address.rstrip('/')}/v1"
        progress(Progress("load", size, size))

    def stop(self) -> None:
        """Stop listening and free the memory."""
        self._server = None
        self.base_url = self.api_key = ""

    def _settings(self, native: Any, path: Path) -> Any:
        cores = os.cpu_count() or 1
        settings = native.CommonParams()
        settings.model.path = str(path)
        settings.model_alias = {self.model}
        settings.chat_template = CHAT_TEMPLATE
        settings.use_jinja = True
        settings.n_ctx = self.context
        settings.n_parallel = 1
        settings.sampling.temp = 0.0
        settings.cpuparams.n_threads = max(1, cores - 1)
        settings.cpuparams_batch.n_threads = cores
        settings.cache_ram_mib = _CACHE_MIB
        settings.api_keys = [self.api_key]
        settings.cors_origins = ""
        settings.cors_credentials = False
        settings.ui = False
        settings.endpoint_slots = False
        settings.offline = True
        settings.hostnames = ["127.0.0.1"]
        settings.port = 0
        settings.verbosity = _CHATTY if self._verbose else _QUIET
        return settings


def _native() -> Any:
    try:
        import xllamacpp  # heavy, optional, and native: only when an engine starts
    except ImportError as error:
        raise Unavailable(
            "The local engine is not installed: run `pip install 'demiurge-runtime[local]'`, or set a key.",
            code="engine_missing",
        ) from error
    return xllamacpp


def _memory() -> int:
    """Return the bytes of memory that are free for use, or all there are where the system does not say."""
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
