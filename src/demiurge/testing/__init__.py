"""Tests of code that uses Demiurge: a scripted model, a clock that stands still, a world that leaves nothing behind,
assertions about tool calls, recorded traffic with providers, and kills at every point at which a tool can be cut off.

May import all of Demiurge, and nothing of Demiurge imports it. Names are imported when they are first used, so that a
tool that only marks its points (`fault_point`) does not import the rest. pytest is imported in `pytest_plugin` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demiurge.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from demiurge.models.scripted import ScriptedModel, call
    from demiurge.testing.assertions import (
        SeenCall,
        assert_no_tool_called,
        assert_tool_called,
        assert_tool_denied,
        assert_tool_not_called,
        assert_waits_for_approval,
        tool_calls,
    )
    from demiurge.testing.cassette import Cassette, CassetteMismatch
    from demiurge.testing.clock import FrozenClock
    from demiurge.testing.crash.crash_points import crash_points
    from demiurge.testing.crash.outside import Outside, fault_point
    from demiurge.testing.crash.report import CrashReport, Kill
    from demiurge.testing.in_memory import memory_world

_HOMES = {
    "demiurge.models.scripted": ("ScriptedModel", "call"),
    "demiurge.testing.assertions": (
        "SeenCall",
        "assert_no_tool_called",
        "assert_tool_called",
        "assert_tool_denied",
        "assert_tool_not_called",
        "assert_waits_for_approval",
        "tool_calls",
    ),
    "demiurge.testing.cassette": ("Cassette", "CassetteMismatch"),
    "demiurge.testing.clock": ("FrozenClock",),
    "demiurge.testing.crash.crash_points": ("crash_points",),
    "demiurge.testing.crash.outside": ("Outside", "fault_point"),
    "demiurge.testing.crash.report": ("CrashReport", "Kill"),
    "demiurge.testing.in_memory": ("memory_world",),
}

__all__ = [
    "Cassette",
    "CassetteMismatch",
    "CrashReport",
    "FrozenClock",
    "Kill",
    "Outside",
    "ScriptedModel",
    "SeenCall",
    "assert_no_tool_called",
    "assert_tool_called",
    "assert_tool_denied",
    "assert_tool_not_called",
    "assert_waits_for_approval",
    "call",
    "crash_points",
    "fault_point",
    "memory_world",
    "tool_calls",
]


__getattr__ = lazy_attributes(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
