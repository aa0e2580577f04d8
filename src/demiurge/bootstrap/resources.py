"""The resources of `World.open`: observers of tool calls, and objects of the program for its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.tools.capabilities import AuthCapability, Clock, People
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.execution.observers import OBSERVERS
from demiurge.tools.execution.ports import BlobSink
from demiurge.tools.limits.budget import BudgetTracker
from demiurge.tools.limits.deadline import Deadline
from demiurge.tools.telemetry.spans import SpanSink
from demiurge.world.effect_kinds import tables

__all__ = ["checked_blobs", "handlers_resources", "observing_resources"]

_LIMITS: Final = frozenset((Deadline, BudgetTracker, Clock, People, AuthCapability))
"""The resources that a world itself gives its tools, beside the capabilities of effects."""


def observing_resources(given: Mapping[Any, Any] | ResourceRegistry, spans: SpanSink | None) -> dict[Any, Any]:
    """Returns the SpanSink, RunSummary and GraphRun of a world. Raises InvalidValue."""
    found = {kind: value for kind, value in _entries(given).items() if kind in OBSERVERS}
    if spans is None:
        return found
    if SpanSink in found:
        raise InvalidValue("is among the resources too: give it once", path="spans")
    if not callable(getattr(spans, "put", None)):
        raise InvalidValue("must have a method `put`, which takes a ToolSpan", path="spans")
    return {**found, SpanSink: spans}


def handlers_resources(given: Mapping[Any, Any] | ResourceRegistry) -> dict[Any, Any]:
    """Returns the resources for handlers, without those that are None. Raises InvalidValue for a key that is no type,
    and for a type that the world itself binds."""
    of_world = _LIMITS | {f.capability.protocol for f in tables().families.values() if f.capability is not None}
    kept = {}
    for kind, value in _entries(given).items():
        if kind in OBSERVERS or value is None:
            continue
        if not isinstance(kind, type):
            why = f"a resource is found by its type, as in {{Pool: pool}}, not by {kind!r}"
            raise InvalidValue(why, path="resources")
        if kind in of_world:
            why = "a world gives its tools its own, whose uses it decides and records: leave it out"
            raise InvalidValue(why, path=f"resources.{kind.__name__}")
        kept[kind] = value
    return kept


def checked_blobs(given: BlobSink | None) -> BlobSink | None:
    """Returns the store for large results. Raises InvalidValue for an object without `put`."""
    if given is not None and not callable(getattr(given, "put", None)):
        raise InvalidValue("must have a method `put`, which takes bytes", path="blobs")
    return given


def _entries(given: object) -> Mapping[Any, Any]:
    entries = given.entries if isinstance(given, ResourceRegistry) else given
    if not isinstance(entries, Mapping):
        raise InvalidValue("must map types to objects, as in {Pool: pool}", path="resources")
    return entries
