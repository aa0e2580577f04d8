"""Results as text."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from bench.tool_call.contender import OURS
from bench.tool_call.race import Result, Series

__all__ = ["comparison", "table"]

HANDLERS = ("async def", "def")


def table(title: str, results: Sequence[Result], baseline: Mapping[str, Series]) -> str:
    """One line per result: µs wall and CPU, median and p95 of the batches' means, and CPU as times `baseline`."""
    head = "".join(f"  {f'{handler}: wall':>18} {'CPU':>15} {'times':>6}" for handler in HANDLERS)
    lines = [f"{title:<15} {'':<7} {'':<34} {'':<10}{head}"]
    for result in results:
        line = result.line
        figures = f"  {result.failure[:80]}" if result.failure else _cells(result, baseline)
        lines.append(f"{line.owner:<15} {result.version:<7} {line.what:<34} {line.does:<10}{figures}".rstrip())
    return "\n".join(lines)


def comparison(results: Sequence[Result]) -> str:
    """Our bare and governed calls as times each peer's, by CPU of `async def` handlers."""
    cpu = {(r.line.owner, r.line.entry): r.series["async def"].cpu_us for r in results if "async def" in r.series}
    ours = cpu[OURS, "bare"], cpu[OURS, "governed"]
    lines = [f"{'ours / theirs, CPU, async def':<57} {'bare':>7} {'governed':>9}"]
    for result in results:
        line = result.line
        if line.owner != OURS and (theirs := cpu.get((line.owner, line.entry))) is not None:
            lines.append(f"{line.owner:<15} {line.what:<41} {ours[0] / theirs:>7.2f} {ours[1] / theirs:>9.2f}")
    return "\n".join(lines)


def _cells(result: Result, baseline: Mapping[str, Series]) -> str:
    cells = []
    for handler in HANDLERS:
        series = result.series.get(handler)
        if series is None:
            cells.append(f"  {'':>18} {'-':>15} {'':>6}")
        else:
            times = series.cpu_us / baseline[handler].cpu_us
            cells.append(f"  {_figure(series.wall):>18} {_figure(series.cpu):>15} {times:>6.1f}")
    return "".join(cells)


def _figure(figures: Sequence[float]) -> str:
    return f"{statistics.median(figures):.1f} ({statistics.quantiles(figures, n=20)[-1]:.1f})"
