"""Runs every benchmark and prints one table: `python -m bench`."""

from __future__ import annotations

import platform

from bench import journal, tools


def main() -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}; ratios are to the first line of each group\n")
    for module in (tools, journal):
        print((module.__doc__ or "").strip())
        for what, figure, ratio in module.run():
            print(f"  {what:<58} {figure:>18}  {ratio:>6}")
        print()


if __name__ == "__main__":
    main()
