"""The report of the crash kit: what became of the effects after each kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from demiurge.testing.crash.outside import EFFECT

__all__ = ["VERDICTS", "CrashReport", "Kill", "Verdict"]

Verdict: TypeAlias = Literal["once", "repeated", "in doubt", "not done", "lost", "doubled", "misreported", "broken"]

VERDICTS: Final[Mapping[Verdict, str]] = {
    "once": "the effect took place as often as without a kill, and the caller was told so",
    "repeated": "the effect took place again; every called tool is read_only, so that is harmless",
    "in doubt": "the caller was told unknown_outcome; nothing was repeated; a person or the tool's reconcile decides",
    "not done": "the effect did not take place, and the caller was told so: it can be asked for again",
    "lost": "the effect did not take place, and the caller was told of a success",
    "doubled": "the effect took place more often than without a kill",
    "misreported": "the effect took place, and the caller was told that the call failed",
    "broken": "the process that went on after the kill failed, or the journal is not whole",
}
"""Each verdict about a kill, and what it means."""


LISTED: Final = 10
"""How many kills an error lists."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill. `point` and `hit`: the fault point, and which of its hits, counted from 1. `effects`: how often each
    effect took place in the end. `code`: the error code that the caller was told in the end, None for a success.
    `detail`: more for a person. `killed` False: this time the point was not reached, so the run was undisturbed."""

    point: str
    hit: int
    verdict: Verdict
    effects: Mapping[str, int]
    code: str | None = None
    detail: str = ""
    killed: bool = True


@dataclass(frozen=True, slots=True)
class CrashReport:
    """The outcome of all kills, in the order in which the undisturbed run passed the points. `expected`: how often each
    effect took place in that run. `print(report)` shows a table."""

    expected: Mapping[str, int]
    kills: tuple[Kill, ...]

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many kills had each verdict; verdicts without a kill are left out."""
        found = Counter(kill.verdict for kill in self.kills)
        return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}

    def of(self, verdict: Verdict) -> tuple[Kill, ...]:
        """Returns the kills with this verdict."""
        return tuple(kill for kill in self.kills if kill.verdict == verdict)

    def assert_never_doubled(self) -> None:
        """Asserts that no effect took place twice, except those of tools that only read."""
        __tracebackhide__ = True
        self._assert_none("doubled")

    def assert_never_lost(self) -> None:
        """Asserts that no effect was lost, and none was reported as failed although it took place."""
        __tracebackhide__ = True
        self._assert_none("lost", "misreported")

    def assert_never_in_doubt(self) -> None:
        """Asserts that the caller always knew the outcome: a tool with `reconcile`, or without effects, gets there."""
        __tracebackhide__ = True
        self._assert_none("in doubt")

    def _assert_none(self, *verdicts: Verdict) -> None:
        wrong = [kill for verdict in ("broken", *verdicts) for kill in self.of(verdict)]
        __tracebackhide__ = True
        if wrong:
            head = f"{len(wrong)} of {len(self.kills)} kills went wrong."
            raise AssertionError("\n".join([head, *map(_sentence, wrong[:LISTED]), "", str(self)]))

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON-ready data: `{expected, counts, kills: [...]}`."""
        return {"expected": dict(self.expected), "counts": self.counts, "kills": [asdict(kill) for kill in self.kills]}

    def __str__(self) -> str:
        rows: dict[str, list[Kill]] = {}
        for kill in self.kills:
            rows.setdefault(kill.point, []).append(kill)
        table = [("kill -9 at", "kills", "what became of the effect")]
        for point, kills in rows.items():
            table.append((_name(point), str(len(kills)), _became(kills)))
        widths = [max(len(row[column]) for row in table) for column in (0, 1)]
        lines = [f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in table]
        effects = ", ".join(f"{name} ({count})" for name, count in self.expected.items()) or "no effect"
        total = ", ".join(f"{verdict} {count}" for verdict, count in self.counts.items()) or "no kill"
        if doubts := self.of("in doubt"):
            happened = sum(bool(kill.effects) for kill in doubts)
            total += f" (of those in doubt, {happened} took place)"
        meanings = [f"{verdict}: {VERDICTS[verdict]}" for verdict in self.counts]
        return "\n".join(
            [f"Without a kill: {effects}.", "", *lines, "", f"{len(self.kills)} kills: {total}", *meanings]
        )


def _name(point: str) -> str:
    return "just after an effect outside" if point == EFFECT else point.removeprefix("mark.")


def _became(kills: Sequence[Kill]) -> str:
    found = Counter(kill.verdict for kill in kills)
    return ", ".join(
        verdict if len(found) == 1 else f"{verdict} {found[verdict]}" for verdict in VERDICTS if found[verdict]
    )


def _sentence(kill: Kill) -> str:
    effects = ", ".join(f"{name} ({count})" for name, count in kill.effects.items()) or "no effect"
    said = f"the caller was told {kill.code}" if kill.code else "the caller was told of a success"
    end = f" ({kill.detail})" if kill.detail else ""
    return f"  {_name(kill.point)}, hit {kill.hit}: {kill.verdict}: {effects}; {said}{end}"
