"""The digest that ties the committed pages of the web shell to their sources.

`make shell` builds the pages and writes the digest beside them; a test compares, so that a change of the sources
without a build is noticed where no node is installed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
SHELL: Final = ROOT / "shell"
PAGES: Final = ROOT / "src" / "demiurge" / "server" / "pages"
DIGEST: Final = PAGES / "build.json"

SOURCES: Final = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src")


def _files(places: list[Path]) -> list[Path]:
    found = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    return sorted(path for path in found if path.is_file())


def _digest(files: list[Path], root: Path) -> str:
    whole = hashlib.sha256()
    for path in files:
        data = path.read_bytes()
        whole.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()


def build_digest() -> dict[str, Any]:
    """Returns the digests of the sources and of the built files as they are now."""
    sources = _files([SHELL / name for name in SOURCES])
    pages = [path for path in _files([PAGES]) if path != DIGEST]
    return {"sources": _digest(sources, SHELL), "pages": _digest(pages, PAGES)}


if __name__ == "__main__":
    DIGEST.write_text(json.dumps(build_digest(), indent=2) + "\n", "utf-8")
