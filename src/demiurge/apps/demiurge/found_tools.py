"""The tools that a turn has found: `core__find_tools` names them, and each later request of the turn describes them.
A deferred tool that the model called without a search is described from then on as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demiurge.tools.ids import FIND_TOOLS
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.reducer import ReducerContext
from demiurge.world.toolset import read_toolset, with_loaded

__all__ = ["toolset_with_found"]


def toolset_with_found(ref: Ref, calls: Sequence[Mapping[str, Any]], context: ReducerContext) -> bytes | None:
    """Returns the toolset at `ref` with the deferred tools that these answered calls name or have found; None if that
    changes nothing. What a search has found counts only as far as the toolset defers it."""
    if not any(call["outcome"]["ok"] or call["name"] != FIND_TOOLS for call in calls):
        return None
    data = context.blob(ref)
    deferred = frozenset(read_toolset(data).deferred)
    names = deferred.intersection(name for call in calls for name in _names(call, context))
    return with_loaded(data, names, context.toolset) if names else None


def _names(call: Mapping[str, Any], context: ReducerContext) -> Iterator[str]:
    yield call["name"]
    view_ref = call["outcome"]["view_ref"]
    if call["name"] == FIND_TOOLS and call["outcome"]["ok"] and view_ref is not None:
        found = canonical_json.parse_object(context.blob(Ref(view_ref))).get("tools")
        for tool in found if isinstance(found, list) else ():
            yield str(tool.get("id")) if isinstance(tool, Mapping) else ""
