"""The result of one check of `demiurge doctor` and `demiurge mcp doctor`, and its lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from demiurge.cli import output

__all__ = ["Check", "check_lines"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. `status` is `fail` if something necessary is broken. `mend` says what to do; `lines` are
    shown below."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    mend: str = ""
    lines: tuple[str, ...] = ()


def check_lines(check: Check) -> Iterator[str]:
    """Yields the result in colour, what to do, and the further lines."""
    mark, colour = {"ok": ("ok  ", "green"), "warn": ("note", "yellow"), "fail": ("FAIL", "red")}[check.status]
    yield f"{output.paint(mark, fg=colour)}  {check.name}: {output.plain(check.detail)}"
    if check.mend:
        yield f"      {output.plain(check.mend)}"
    yield from (f"      {output.plain(line)}" for line in check.lines)
