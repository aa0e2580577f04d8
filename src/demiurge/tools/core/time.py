"""`core__get_current_time`: the current time, which a model cannot know by itself. The clock is a capability."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from demiurge.tools.capabilities import Clock
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["CurrentTime", "GetCurrentTime", "get_current_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GetCurrentTime:
    timezone: str | None = field(
        default=None, metadata={"description": "IANA time zone name: area and city joined by a slash, or UTC."}
    )


@dataclass(frozen=True, slots=True)
class CurrentTime:
    """`iso`: RFC 3339 with seconds and offset. `weekday`: in English."""

    timezone: str
    iso: str
    weekday: str


_REGIONS = frozenset(
    {"africa", "america", "antarctica", "arctic", "asia", "atlantic", "australia", "europe", "indian", "pacific"}
)


def _handle(params: GetCurrentTime, *, context: ToolContext) -> ToolResult[CurrentTime]:
    clock = context.resources.get(Clock)
    if clock is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    name, zone = _zone((params.timezone or "").strip() or "UTC")
    now = (_EPOCH + timedelta(microseconds=clock.now_ns() // 1000)).astimezone(zone)
    value = CurrentTime(name, now.isoformat(timespec="seconds"), f"{now:%A}")
    return ToolResult(message=f"It is {now:%H:%M} on {now:%A}, {now.day} {now:%B %Y} in {name}.", value=value)


def _zone(requested: str) -> tuple[str, ZoneInfo]:
    """Returns the time zone and its proper name. Also accepts a city, a city with the wrong region, and other letter
    case. Raises ToolUserError."""
    try:
        return requested, ZoneInfo(requested)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        wanted = requested.replace(" ", "_").casefold()
        region, _, city = wanted.rpartition("/")
        name = _zone_names().get(wanted) or (_zone_names().get(city) if region in _REGIONS else None)
    if name is None:
        raise ToolUserError("That is not an IANA time zone name. Use one such as Europe/Berlin or UTC.")
    return name, ZoneInfo(name)


@cache
def _zone_names() -> dict[str, str]:
    """Returns proper names by their lower-case form, and by city if only one zone of a region has it."""
    names = {zone.casefold(): zone for zone in available_timezones()}
    cities: dict[str, set[str]] = {}
    for zone in names.values():
        if zone.count("/") == 1 and not zone.startswith(("Etc/", "US/", "SystemV/")):
            cities.setdefault(zone.rpartition("/")[2].casefold(), set()).add(zone)
    return {**{city: min(zones) for city, zones in cities.items() if len(zones) == 1}, **names}


get_current_time = CoreTool[GetCurrentTime, CurrentTime](
    name="core__get_current_time",
    description="Get the current date and time in a time zone.",
    handler=_handle,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("timezone", "iso", "weekday"),
    capabilities=(Clock,),
    inline=True,
)
