"""Reconciling: finding out whether a call that was begun took effect.

A tool's `reconcile(params, *, context)` looks at what the handler would have changed. It answers in the handler's
place with a ToolResult, of success or failure. If it raises or returns None, the call stays in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from demiurge.tools.authoring.signature import is_async_callable
from demiurge.tools.bound import BoundTool
from demiurge.tools.context import ToolContext
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.tools.execution.cause import log_cause

__all__ = ["reconciling"]


def reconciling(tool: BoundTool) -> BoundTool:
    """Returns the tool with its handler replaced by its `reconcile`, which it must have."""
    reconcile = tool.reconcile
    assert reconcile is not None

    def ask(params: Any, context: ToolContext) -> Any:
        with _failing_as_unknown():
            return _require_result(reconcile(params, context=context))

    async def wait(params: Any, context: ToolContext) -> Any:
        with _failing_as_unknown():
            return _require_result(await reconcile(params, context=context))

    waits = is_async_callable(reconcile)
    return replace(tool, call=wait if waits else ask, is_async=waits)


@contextmanager
def _failing_as_unknown() -> Iterator[None]:
    """Turns an unexpected exception in the `with` block into ToolFailure (`unknown_outcome`)."""
    try:
        yield
    except (ToolUserError, ToolFailure):
        raise
    except Exception as error:
        log_cause("reconcile", error)
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME) from error


def _require_result(result: Any) -> Any:
    """Returns the result. Raises ToolFailure (`unknown_outcome`) for None."""
    if result is None:
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)
    return result
