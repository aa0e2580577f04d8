from collections.abc import Mapping
from typing import Any

from demiurge import Step
from demiurge.world.reducer import ReducerContext


def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """The order's history; what to do next, the plan knows."""
    what = event["$value"].get("what") or event["$value"].get("message") or ""
    return Step(append={"history": [f"{event['$tag']} {what}".strip()]})
