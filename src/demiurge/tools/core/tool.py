"""The class of the shipped tools: the only class whose tools may use the reserved prefixes.

Small local models read their descriptions too, so the descriptions are short, plain, and without examples, which
such models copy.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from demiurge.tools.authoring.tool import Tool

__all__ = ["CoreTool"]

ParamsT = TypeVar("ParamsT")
ResultT = TypeVar("ResultT")


class CoreTool(Tool[ParamsT, ResultT], Generic[ParamsT, ResultT]):
    """A Tool that ships with Demiurge."""

    may_use_reserved_prefixes: ClassVar[bool] = True
    works_through_capabilities: ClassVar[bool] = True
