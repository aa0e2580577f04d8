"""Prints the table; exits with 1 if something differs without a reason."""

from __future__ import annotations

from bench.wire.agreement import difference
from bench.wire.derived import derived_failures
from bench.wire.interactions import Interaction, decoded, recorded
from bench.wire.resent import answers, has_results, resent_difference
from bench.wire.sdk_answers import Missing, sdk_answers, sdk_names
from bench.wire.speed import speeds
from bench.wire.splits import split_difference
from bench.wire.table import Tally

SPLIT, SDK, RESENT = "a streams, cut anywhere", "b as the SDKs read it", "c requests with results"


def main() -> int:
    entries = recorded()
    tally = Tally()
    for entry in entries:
        if entry.stream:
            tally.add(entry.provider, SPLIT, split_difference(entry))
        for kind, failure in derived_failures(entry):
            tally.add(entry.provider, f"d derived: {kind}", failure)
    taken = _resent(entries, tally)
    missing = _beside_the_sdks(entries, tally)
    print(f"{len(entries)} interactions; SDKs: {missing or sdk_names()}")
    print(f"{taken} turns of the model in (c) are decoded answers, the others are as the client sent them\n")
    print("\n".join(tally.lines()))
    print(f"\nwithout a reason: {tally.unexplained}")
    if not missing:
        print("\ndecoding the streams, beside the SDKs' own parsing and accumulation:")
        for what, figure, ratio in speeds(entries):
            print(f"{what:<60} {figure:>12}  {ratio:>5}")
    return 1 if tally.unexplained or missing else 0


def _resent(entries: list[Interaction], tally: Tally) -> int:
    known = answers(entries)
    taken = 0
    for entry in filter(has_results, entries):
        turns, reason = resent_difference(entry, known)
        taken += turns
        tally.add(entry.provider, RESENT, reason)
    return taken


def _beside_the_sdks(entries: list[Interaction], tally: Tally) -> str | None:
    """The reason if there are no SDKs to ask."""
    try:
        theirs = sdk_answers(entries)
    except Missing as reason:
        return f"none ({reason})"
    for entry, answer in zip(entries, theirs, strict=True):
        tally.add(entry.provider, SDK, difference(entry, decoded(entry), answer))
    return None


if __name__ == "__main__":
    raise SystemExit(main())
