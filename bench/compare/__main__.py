"""Prints the tables that the command line names, or all of them, as Markdown."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from bench.compare import speed, trials
from bench.compare.contest import CONTESTANTS, version_of
from bench.tool_call.environment import Missing

Table = tuple[tuple[str, ...], Iterator[tuple[str, ...]]]

TABLES: Mapping[str, Callable[[], Table]] = {
    "crash": trials.crash,
    "approval": trials.approval,
    "audit": trials.audit,
    "turns": speed.turns,
    "steps": speed.steps,
    "calls": speed.calls,
    "imports": speed.imports,
}


def _show(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |", flush=True)
    print()


def _versions() -> Iterator[tuple[str, ...]]:
    for contestant in CONTESTANTS:
        try:
            yield contestant.title, contestant.package.replace(" ", ", "), version_of(contestant)
        except Missing as reason:
            yield contestant.title, contestant.package, f"not tried: {reason}"


def main(wanted: list[str]) -> None:
    unknown = [name for name in wanted if name not in TABLES]
    if unknown:
        sys.exit(f"there is no table {unknown[0]}: name some of {', '.join(TABLES)}")
    print(f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.machine()}\n")
    _show(("", "packages", "versions"), _versions())
    for name in wanted or TABLES:
        head, rows = TABLES[name]()
        print(f"## {name}\n")
        _show(head, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
