"""Runs every benchmark: `python -m bench`; with `--full` up to a million records. `python -m bench.tool_call`,
`python -m bench.growth`, `python -m bench.blob_access`, `python -m bench.prompt_tools`, `python -m bench.http`, `python
-m bench.terminal` and `python -m bench.wire` run those alone. `python -m bench.compare` and `python
-m bench.gateway`, beside the peers, are not among them: they take minutes and much room."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable

from bench import blob_access, growth, history, journal, prompt_tools, steps, terminal
from bench.http import page, posting, silent, watching
from bench.steps import race
from bench.terminal import measure
from bench.tool_call import report
from bench.wire import speed


def _show(title: str | None, lines: Iterable[tuple[str, str, str]]) -> None:
    print((title or "").strip())
    for what, figure, ratio in lines:
        print(f"  {what:<66} {figure:>18}  {ratio:>6}")
    print()


def main() -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}; ratios are to the first line of each group\n")
    _show(journal.__doc__, journal.run())
    _show(history.__doc__, history.run(full="--full" in sys.argv))
    _show(growth.__doc__, growth.run())
    _show(blob_access.__doc__, blob_access.run())
    _show(prompt_tools.__doc__, prompt_tools.run())
    for part in (posting, watching, silent, page):
        _show(part.__doc__, part.run())
    _show(steps.__doc__, race.run())
    _show(terminal.__doc__, measure.run())
    _show(speed.__doc__, speed.run())
    report.run()


if __name__ == "__main__":
    main()
