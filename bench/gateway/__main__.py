"""Prints the table: `python -m bench.gateway`."""

from __future__ import annotations

from statistics import median

from bench.gateway import race


def lines() -> list[tuple[str, str, str]]:
    """Returns the lines of the table: a way to the tool, its figures, and their ratio to those of Demiurge."""
    found, missing = race.run()
    straight, ours = found["straight"], found.get("demiurge")
    own_cpu = median(ours.cpu_ms) - median(straight.cpu_ms) if ours is not None else None
    shown = []
    for name, figures in found.items():
        cpu, p50 = median(figures.cpu_ms), median(figures.p50_ms)
        added = cpu - median(straight.cpu_ms)
        ratio = f"{added / own_cpu:.2f}" if own_cpu and name != "straight" else ""
        shown.append((name, f"{cpu:.2f} ms CPU, {added:.2f} added; p50 {p50:.2f} ms", ratio))
    shown += [(name, why, "") for name, why in missing.items()]
    return [*shown, ("one fsync of 4 KiB", f"{race.fsync_ms():.2f} ms", "")]


if __name__ == "__main__":
    for what, figure, ratio in lines():
        print(f"{what:<24} {figure:<56} {ratio:>6}")
