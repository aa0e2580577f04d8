"""A unit: one keyed cell and the plans that its events started.

A unit is the grain of order, locking, replay and distribution. Units touch each other only by sending events, so the
code inside a unit is single-threaded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from demiurge.errors import InvalidValue

__all__ = ["NAME", "Unit"]

NAME = re.compile(r"[a-z][a-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*@[1-9][0-9]*")
"""A versioned definition name, `namespace/Name@N`."""


class Unit(NamedTuple):
    """`module` is a versioned name, `key` the cell's key as text ("" for a module without keys)."""

    module: str
    key: str

    def __str__(self) -> str:
        return f"{self.module}/{self.key}"

    @classmethod
    def parse(cls, text: str) -> Unit:
        """Parses the text that `str` gives. Raises InvalidValue for any other text."""
        found = NAME.match(text)
        if found is None or text[found.end() : found.end() + 1] != "/":
            raise InvalidValue(f"{text!r} is not a unit; write it as namespace/Name@N/key")
        return cls(found.group(), text[found.end() + 1 :])
