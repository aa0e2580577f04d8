"""The time tool: a small model's likeliest call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from demiurge.tools import CORE_TOOLS, ToolPolicy, ToolRunner
from demiurge.values.clock import FixedClock

NOON = int(datetime(2026, 1, 2, 12, 0, 5, tzinfo=UTC).timestamp()) * 10**9
RUNNER = ToolRunner(CORE_TOOLS, policy=ToolPolicy(("core__get_current_time",)), clock=FixedClock(NOON))


@pytest.mark.parametrize(
    ("args", "timezone", "iso"),
    [
        ({}, "UTC", "2026-01-02T12:00:05+00:00"),
        ({"timezone": None}, "UTC", "2026-01-02T12:00:05+00:00"),
        ({"timezone": ""}, "UTC", "2026-01-02T12:00:05+00:00"),
        ({"timezone": "Asia/Tokyo"}, "Asia/Tokyo", "2026-01-02T21:00:05+09:00"),
        ({"timezone": "europe/berlin"}, "Europe/Berlin", "2026-01-02T13:00:05+01:00"),
        ({"timezone": "los angeles"}, "America/Los_Angeles", "2026-01-02T04:00:05-08:00"),
    ],
)
def test_the_time_in_a_zone(args: dict[str, Any], timezone: str, iso: str) -> None:
    result = RUNNER.exec_sync("core__get_current_time", args)
    assert result.value == {"timezone": timezone, "iso": iso, "weekday": "Friday"}
    assert f"Friday, 2 January 2026 in {timezone}." in result.content


@pytest.mark.parametrize("zone", ["Mars/Canary", "../etc/passwd", "/etc/localtime", "x\x00", "a" * 500])
def test_an_unknown_zone_is_answered_with_a_valid_example(zone: str) -> None:
    result = RUNNER.exec_sync("core__get_current_time", {"timezone": zone})
    assert result.error_code == "execution"
    assert "Europe/Berlin" in str(result.safe_message)
    assert zone not in result.content
