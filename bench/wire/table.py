"""Counts by provider and check, and the table of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

__all__ = ["Tally"]


class Tally:
    """`add` takes one comparison: the difference is None where the two are equal."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str | None]] = Counter()
        self._lines: dict[tuple[str, str], None] = {}

    def add(self, provider: str, check: str, difference: str | None, times: int = 1) -> None:
        self._lines[provider, check] = None
        self._counts[provider, check, difference] += times

    @property
    def unexplained(self) -> int:
        """Comparisons that differ without a reason that was looked for; of derived cases, all that failed."""
        return sum(
            count
            for (_, check, difference), count in self._counts.items()
            if difference is not None and (difference.startswith("unexplained") or not check.startswith(("b ", "c ")))
        )

    def lines(self) -> Iterator[str]:
        yield f"{'provider':<27}{'check':<30}{'tried':>6}{'equal':>7}{'different':>11}  why"
        before = ""
        for provider, check in sorted(self._lines):
            reasons = {
                difference: count
                for (owner, name, difference), count in self._counts.items()
                if (owner, name) == (provider, check)
            }
            equal = reasons.pop(None, 0)
            different = sum(reasons.values())
            shown = provider if provider != before else ""
            why = [f"{count}: {reason}" for reason, count in sorted(reasons.items(), key=str)]
            head = f"{shown:<27}{check:<30}{equal + different:>6}{equal:>7}{different:>11}"
            yield f"{head}  {why[0] if why else ''}".rstrip()
            yield from (f"{'':<83}{reason}" for reason in why[1:])
            before = provider
