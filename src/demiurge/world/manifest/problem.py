"""What is wrong with a manifest, and where: an author sees everything at once, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from demiurge.errors import InvalidValue

__all__ = ["BadManifest", "ManifestPlace", "Problem"]


class Problem(NamedTuple):
    """One thing that is wrong: `file` (or the name of a definition that comes from no file), the `path` inside it,
    what is `wrong`, and what to do (`fix`)."""

    file: str
    path: str
    wrong: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}: {self.path + ': ' if self.path else ''}{self.wrong}; {self.fix}"


class ManifestPlace(NamedTuple):
    """Where a part of a manifest stands."""

    file: str
    path: str = ""

    def at(self, *steps: str | int) -> ManifestPlace:
        path = self.path
        for step in steps:
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        return ManifestPlace(self.file, path.removeprefix("."))

    def wrong(self, what: str, fix: str) -> Problem:
        return Problem(self.file, self.path, what, fix)


class BadManifest(InvalidValue):
    """A manifest that can't be used. `problems` is all of it; the message has a line for each."""

    code = "bad_manifest"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"The manifest has {count}:\n" + "\n".join(f"  {problem}" for problem in problems))
