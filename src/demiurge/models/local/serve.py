"""The engine's process: llama.cpp's server on loopback, for as long as its parent lives.

It is run as a file, not imported: it needs nothing of this package, so it starts as fast as the native library loads.
It reads one line of JSON from its input (`path`, `name`, `context`, `api_key`, `chat_template`, `prompts`, `verbose`),
writes one line back (`{"listening": URL}` or `{"error": code}`), and ends when its input closes: a parent that was
killed leaves no engine behind.

Invariant: the server listens on 127.0.0.1 only, on a port chosen by the system, behind the given key, without its web
page, without CORS and without network access of its own. No other program on the machine can use the model's time, and
no page in a browser can reach it.

The settings were measured: temperature 0 (at 0.8 calls go wrong), one thread fewer than cores for generation (all cores
on a busy machine are ten times slower), 256 MiB of prompt cache in place of the default 8 GiB.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_CACHE_MIB = 256
_BATCH = 128
"""The tokens of a prompt that are read at once. After each batch the server says how far it has read."""
_QUIET = -1
_CHATTY = 4


def main() -> None:
    """Serves until the input closes. Only the answer's line is written to stdout; native messages go to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    server, answer = _serve(request)
    print(json.dumps(answer), file=answers, flush=True)
    if server is not None:
        sys.stdin.read()
    # Not sys.exit: the server's destructor would wait for ever for a loop that may never have begun.
    os._exit(0)


def _serve(request: dict[str, Any]) -> tuple[Any, dict[str, str]]:
    try:
        import xllamacpp  # native: imported in this process only
    except ImportError:
        return None, {"error": "engine_missing"}
    try:
        server = xllamacpp.Server(_settings(xllamacpp, request))
    except RuntimeError:
        return None, {"error": "model_unavailable"}
    return server, {"listening": server.listening_address}


def _settings(native: Any, request: dict[str, Any]) -> Any:
    cores = os.cpu_count() or 1
    settings = native.CommonParams()
    settings.model.path = request["path"]
    settings.model_alias = {request["name"]}
    settings.chat_template = request["chat_template"]
    settings.use_jinja = True
    settings.n_ctx = request["context"]
    settings.n_parallel = 1
    settings.n_batch = _BATCH
    settings.sampling.temp = 0.0
    settings.cpuparams.n_threads = max(1, cores - 1)
    settings.cpuparams_batch.n_threads = cores
    settings.cache_ram_mib = _CACHE_MIB
    settings.slot_save_path = request["prompts"]
    settings.api_keys = [request["api_key"]]
    settings.cors_origins = ""
    settings.cors_credentials = False
    settings.ui = False
    settings.endpoint_slots = False
    settings.offline = True
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.verbosity = _CHATTY if request["verbose"] else _QUIET
    return settings


if __name__ == "__main__":
    main()
