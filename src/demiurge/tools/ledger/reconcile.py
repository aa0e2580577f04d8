"""Finding out what became of a call that was begun (reconcile).

A tool's `reconcile(params, *, context)` looks, in the place that the handler would have changed, whether it did. It
answers in the handler's place with a ToolResult, of success or not. When it breaks or has no answer (None), nothing
is known but that the call was begun: it stays in doubt.
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
    """The tool with its handler replaced by its `reconcile`, which it must have."""
    reconcile = tool.reconcile
    assert reconcile is not None

    def ask(params: Any, context: ToolContext) -> Any:
        with _doubting():
            return _known(reconcile(params, context=context))

    async def wait(params: Any, context: ToolContext) -> Any:
        with _doubting():
            return _known(await reconcile(params, context=context))

    waits = is_async_callable(reconcile)
    return replace(tool, call=wait if waits else ask, is_async=waits)


@contextmanager
def _doubting() -> Iterator[None]:
    try:
        yield
    except (ToolUserError, ToolFailure):
        raise
    except Exception as error:
        log_cause("reconcile", error)
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME) from error


def _known(result: Any) -> Any:
    if result is None:
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)
    return result
