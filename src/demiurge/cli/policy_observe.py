"""`demiurge policy observe`: a tool policy that is tried and not enforced, until a time that must be named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.observing import ObservedCalls, Observing
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.check import Check
from demiurge.cli.command import Command
from demiurge.cli.hints import runnable
from demiurge.cli.portal import Portal
from demiurge.cli.world import opened
from demiurge.errors import InvalidValue
from demiurge.values.clock import SystemClock

__all__ = ["observe", "observing_check", "observing_document", "observing_lines", "observing_sentence", "until_of"]

NOTHING_CHANGED: Final = "No call was observed that the policy would have decided otherwise."

_SPAN = re.compile(r"([1-9][0-9]{0,4})([hd])")


@click.command(name="observe", cls=Command)
@click.option("--until", metavar="TIME", callback=utf8_text, help="The end: 2027-01-31T12:00Z, or 24h or 7d from now.")
@click.option("--off", is_flag=True, help="Enforce the policy again now.")
@click.option("--days", type=click.IntRange(1), default=30, show_default=True, help="The days to report on.")
def observe(until: str | None, off: bool, days: int) -> None:
    """Record the denials and approvals of the tool policy for trusted MCP tools, without enforcing them, until a TIME.

    Without options, prints whether that is so now, and the calls that the policy would have decided otherwise. It ends
    by itself at the named time, at most 30 days ahead. Pins, quarantine, checks of arguments, limits, locks, the roles
    of callers and `when_tainted: deny` hold as ever, and so does the policy for all other tools.
    """
    if off and until is not None:
        raise click.UsageError("Give --until or --off, not both.")
    with opened() as (world, portal):
        if off or until is not None:
            warning = portal.run(world.observe_policy(until_of(until) if until is not None else None))
            if warning is not None:
                output.notice(warning)
        found = portal.run(world.observing(days))
    output.result(observing_document(found), *observing_lines(found))


def until_of(text: str) -> datetime:
    """Returns the time that `2027-01-31T12:00Z` names, or `24h` or `7d` from now. Raises InvalidValue (`bad_time`)."""
    if span := _SPAN.fullmatch(text):
        length = timedelta(**{"hours" if span[2] == "h" else "days": int(span[1])})
        return datetime.fromtimestamp(SystemClock().now_ns() / 1e9, UTC) + length
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is no time: write 2027-01-31T12:00Z, or 24h or 7d from now."
        raise InvalidValue(message, code="bad_time") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def observing_sentence(until_ns: int) -> str:
    """Returns the sentence that says that the policy is not enforced now."""
    return f"The tool policy is observed until {_when(until_ns)}: for trusted MCP tools it is recorded, not enforced."


def observing_check(world: World, portal: Portal, info: Mapping[str, Any]) -> Iterator[Check]:
    """Yields the check that says that the policy is not enforced now, and what it would have changed; none if it is
    enforced. `info`: of the world."""
    if info.get("observe_until_ns") is None:
        return
    found = portal.run(world.observing())
    if found.until_ns is not None:
        said = [observing_sentence(found.until_ns), _changed(found) if found.calls else NOTHING_CHANGED]
        mend = "`demiurge policy observe` lists such calls, and `demiurge policy observe --off` ends it."
        yield Check("tool policy", "warn", " ".join(said), runnable(mend))


def observing_document(found: Observing) -> dict[str, Any]:
    """Returns the state of observing as JSON, with times in words."""
    until = _when(found.until_ns) if found.until_ns is not None else None
    return {"observing": found.until_ns is not None, "until": until, **found.to_json()}


def observing_lines(found: Observing) -> Iterator[str]:
    """Yields the sentences about the state of observing and about each tool that was observed."""
    yield observing_sentence(found.until_ns) if found.until_ns is not None else "The tool policy is enforced."
    if not found.calls:
        yield NOTHING_CHANGED
        return
    yield f"{_changed(found)[:-1]}:"
    yield from (f"  {_line(each)}" for each in found.calls)


def _changed(found: Observing) -> str:
    calls = sum(each.calls for each in found.calls)
    assert found.since_ns is not None
    return f"Since {_when(found.since_ns)} the policy would have decided {calls} call{'s' * (calls != 1)} otherwise."


def _line(each: ObservedCalls) -> str:
    would = "denied" if each.would_be == "deny" else "asked a person about"
    return f"{would} {each.tool}: {each.calls}, last {_when(each.last_ns)}"


def _when(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
