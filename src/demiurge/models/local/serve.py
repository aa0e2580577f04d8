"""The engine's process: llama.cpp's server on loopback, for as long as its parent lives or for its time after it.

It is run as a file, not imported: it needs nothing of this package, so it starts as fast as the native library loads.
It reads one line of JSON from its input (`path`, `name`, `context`, `api_key`, `chat_template`, `prompts`, `verbose`,
`stays_s`, `made_for`), and writes one line back (`{"listening": URL}` or `{"error": code}`). It ends when its input
closes, so that a parent that was killed leaves no engine behind; with `stays_s` it serves on for as many seconds after
its last user, and says in `engine.json` where it listens (`left_engine.py`).

Invariant: the server listens on 127.0.0.1 only, on a port chosen by the system, behind the given key, without its web
page, without CORS and without network access of its own. No other program on the machine can use the model's time, and
no page in a browser can reach it.

The settings were measured: temperature 0 (at 0.8 calls go wrong), one thread fewer than cores for generation (all cores
on a busy machine are ten times slower), 256 MiB of prompt cache in place of the default 8 GiB.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any

_CACHE_MIB = 256
_BATCH = 128
"""The tokens of a prompt that are read at once. After each batch the server says how far it has read."""
_QUIET = -1
_CHATTY = 4
_LOOKS_EVERY_S = 0.5


def main() -> None:
    """Serves until the input closes. Only the answer's line is written to stdout; native messages go to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    server, answer = _serve(request)
    stays = server is not None and request["stays_s"] > 0 and _left(request, answer["listening"])
    print(json.dumps(answer), file=answers, flush=True)
    if stays:
        _stay(request)
    elif server is not None:
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


def _left(request: dict[str, Any], listening: str) -> bool:
    """Writes `engine.json`, and locks `engine.alive` for as long as this process lives. Returns whether both could be
    done."""
    known = {"base_url": f"{listening.rstrip('/')}/v1"}
    known |= {name: request[name] for name in ("api_key", "context", "made_for")}
    part = request["prompts"] + "engine.json.part"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(known))
        alive = os.open(request["prompts"] + "engine.alive", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(alive, fcntl.LOCK_EX)
        os.replace(part, request["prompts"] + "engine.json")
    except OSError:
        return False
    return True


def _stay(request: dict[str, Any]) -> None:
    """Waits until no process has used this engine for its time, or `engine.json` does not name it any more."""
    unused_s = 0.0
    while True:
        time.sleep(_LOOKS_EVERY_S)
        try:
            with open(request["prompts"] + "engine.json", encoding="utf-8") as file:
                if json.load(file)["api_key"] != request["api_key"]:
                    return
            with open(request["prompts"] + "engine.lock", "a", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                unused_s += _LOOKS_EVERY_S
                if unused_s >= request["stays_s"]:
                    os.unlink(request["prompts"] + "engine.json")  # while no process can take this engine
                    return
        except BlockingIOError:
            unused_s = 0.0
        except (OSError, ValueError, KeyError):
            return


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
