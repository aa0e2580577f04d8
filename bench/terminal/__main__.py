"""`python -m bench.terminal` runs this benchmark alone."""

from __future__ import annotations

from bench.terminal.measure import run

if __name__ == "__main__":
    for what, figure, ratio in run():
        print(f"{what:<70} {figure:>14}  {ratio:>6}", flush=True)
