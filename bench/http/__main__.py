"""`python -m bench.http` runs these benchmarks alone."""

from __future__ import annotations

from bench.http import page, posting, silent, watching

if __name__ == "__main__":
    for part in (posting, watching, silent, page):
        for what, figure, ratio in part.run():
            print(f"{what:<70} {figure:>18}  {ratio:>6}", flush=True)
