"""The tools that every world has: the core tools, the tools for the catalog of prompt tools, and the core pack."""

from __future__ import annotations

from typing import Any, Final

from demiurge.registry.catalog_tools import CATALOG_TOOLS
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.core import CORE_TOOLS

__all__ = ["NEED_CATALOG", "SHIPPED_TOOLS"]

_WITH_CATALOG: Final[tuple[Tool[Any, Any], ...]] = (*CATALOG_TOOLS, *PACK_TOOLS)

SHIPPED_TOOLS: Final = (*CORE_TOOLS, *_WITH_CATALOG)

NEED_CATALOG: Final = frozenset(tool.name for tool in _WITH_CATALOG)
"""The tools that go with the catalog of prompt tools. A model that gets no catalog is not offered them by default."""
