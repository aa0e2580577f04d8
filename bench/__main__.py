"""Runs every benchmark: `python -m bench`. `python -m bench.tool_call` runs that one alone."""

from __future__ import annotations

import platform

from bench import journal
from bench.tool_call import report


def main() -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}; ratios are to the first line of each group\n")
    print((journal.__doc__ or "").strip())
    for what, figure, ratio in journal.run():
        print(f"  {what:<58} {figure:>18}  {ratio:>6}")
    print()
    report.run()


if __name__ == "__main__":
    main()
