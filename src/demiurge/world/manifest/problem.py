"""Problems of a manifest: what is wrong, where, and how to mend it. An author sees all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from demiurge.errors import InvalidValue

__all__ = ["BadManifest", "ManifestPlace", "Problem"]


class Problem(NamedTuple):
    """One problem: the `file` (or the name of a definition that comes from no file), the `path` inside it, what is
    `wrong`, and what to do (`fix`)."""

    file: str
    path: str
    wrong: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}: {self.path + ': ' if self.path else ''}{self.wrong}; {self.fix}"


class ManifestPlace(NamedTuple):
    """The place of a part of a manifest."""

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
    """The manifest cannot be used. `problems` holds all problems; the message has a line for each."""

    code = "bad_manifest"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"The manifest has {count}:\n" + "\n".join(f"  {problem}" for problem in problems))
