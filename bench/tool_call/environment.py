"""The peers' environments: made when first needed, from pinned requirements, in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bench.tool_call.contender import Peer
from demiurge.models.local.weights import cache_folder

__all__ = ["Missing", "interpreter"]


class Missing(Exception):
    """There is no environment for a peer; the text says why."""


def interpreter(peer: Peer) -> Path:
    """The Python in which `peer` is installed. Raises Missing."""
    base = _base(peer)
    version = _run([base, "-c", "import platform; print(platform.python_version())"]).strip()
    pinned = peer.requirements.read_bytes()
    folder = cache_folder() / "bench" / f"{peer.name}-{version}-{hashlib.sha256(pinned).hexdigest()[:12]}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"bench: installing {peer.requirements.name} into {folder} ...", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([base, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(peer.requirements)])
        ready.touch()
    return python


def _base(peer: Peer) -> str:
    if peer.python is None or sys.version_info >= peer.python:
        return sys.executable
    for name in ("python3.13", "python3.12"):
        if shutil.which(name) and _works(name):
            return name
    raise Missing("needs Python {}.{}".format(*peer.python))


def _works(name: str) -> bool:
    """A name on PATH may be a pointer to a version that is not switched on."""
    return subprocess.run([name, "-V"], capture_output=True, check=False).returncode == 0  # noqa: S603


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        raise Missing(f"{' '.join(command[1:4])} failed")
    return done.stdout
