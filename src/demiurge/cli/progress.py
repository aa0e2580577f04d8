"""Progress of long steps on stderr: a bar on a terminal, else a line for every quarter."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from demiurge.cli import output
from demiurge.errors import Unavailable
from demiurge.models.local import LOCAL_MODEL, Progress, fetch, locate

__all__ = ["engine_is_installed", "ensure_local_model", "fetch_shown"]

ENGINE = "xllamacpp"

WIDTH = 30
MIB = 1 << 20
PHASES = {
    "waiting": "Waiting for another fetch of the local model",
    "download": "Fetching the local model",
    "check": "Checking the local model",
    "done": "The local model is here",
}


class _Bar:
    """Shows `Progress` reports: each percent on a terminal; else a line as each quarter of the way begins, and at the
    end."""

    def __init__(self) -> None:
        self._terminal = output.is_terminal(sys.stderr)
        self._shown: tuple[str, int] | None = None

    def __call__(self, progress: Progress) -> None:
        share = progress.done / progress.total if progress.total else 0.0
        step = (progress.phase, int(share * (100 if self._terminal else 4)))
        over = share >= 1 and progress.phase != "done"
        if step == self._shown or (over and not self._terminal):
            return
        self._shown = step
        words = PHASES.get(progress.phase, progress.phase)
        numbers = f"{share:4.0%} of {progress.total // MIB} MiB"
        if self._terminal:
            bar = ("#" * int(share * WIDTH)).ljust(WIDTH, "-")
            end = "\n" if progress.phase == "done" else ""
            sys.stderr.write(f"\r\x1b[2K{words} [{bar}] {numbers}{end}")
        else:
            sys.stderr.write(f"{words}: {numbers.strip()}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._terminal and self._shown is not None and self._shown[0] != "done":
            sys.stderr.write("\n")


def engine_is_installed() -> bool:
    return find_spec(ENGINE) is not None


def fetch_shown(source: str | None = None) -> Path:
    """Runs `models.local.fetch` with a progress bar. Raises as `fetch`."""
    bar = _Bar()
    try:
        return fetch(bar, source)
    finally:
        bar.end()


def ensure_local_model() -> None:
    """Fetches the weights if they are missing. Raises Unavailable, also without the engine."""
    if not engine_is_installed():
        raise Unavailable(
            "There is neither a key nor the local engine: set LLM_API_KEY, "
            "or run `pip install 'demiurge-runtime[local]'`.",
            code="engine_missing",
        )
    if locate() is None:
        size = f"{LOCAL_MODEL.size / 1e9:.1f} GB"
        output.notice(f"The local model answers here; its weights ({size}) are fetched once.")
        fetch_shown()
