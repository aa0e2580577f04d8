"""Globs that select files of a workspace by their paths, without regard to case.

`*` and `?` stand for characters of one name and `**` for any number of folders. A glob without `/` selects by the name
alone, in every folder; a glob that ends with `/` selects everything in that folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from demiurge.registry.pack.result import GatherError

__all__ = ["checked_globs", "is_selected"]

_MOST, _LONGEST = 20, 200
_GLOB = re.compile(r"[A-Za-z0-9._~*?-]+(/[A-Za-z0-9._~*?-]+)*/?")


def checked_globs(globs: Sequence[str]) -> tuple[str, ...]:
    """Returns the globs. Raises GatherError (`invalid_args`) for too many, and for one that no path can fit."""
    if len(globs) > _MOST:
        raise GatherError(f"Give at most {_MOST} globs.")
    for glob in globs:
        if len(glob) > _LONGEST or not _GLOB.fullmatch(glob) or {".", ".."} & set(glob.split("/")):
            raise GatherError("A glob is names joined by /, of letters, digits and . _ ~ - * ?, such as notes/**/*.md.")
    return tuple(globs)


def is_selected(path: str, globs: Iterable[str]) -> bool:
    """Returns whether one of the globs fits the path."""
    names = path.lower().split("/")
    return any(_fits(_parts(glob.lower()), names) for glob in globs)


def _parts(glob: str) -> list[str]:
    if glob.endswith("/"):
        return [*glob[:-1].split("/"), "**"]
    return glob.split("/") if "/" in glob or glob == "**" else ["**", glob]


def _fits(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Returns whether the parts of a glob fit all names of a path, in time linear in each."""
    reached = {0}
    for part in parts:
        if part == "**":
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and fnmatchcase(names[at], part)}
        if not reached:
            return False
    return len(names) in reached
