"""The tools that every world has: the core tools, the tools for the catalog of prompt tools, and the core pack.

A person or a program may call all of them; `offered_tools` says which of them a message offers to its model.
"""

from __future__ import annotations

from typing import Any, Final

from demiurge.registry.catalog_tools import CATALOG_TOOLS
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.core import CORE_TOOLS

__all__ = ["CORE_PACK_SETTINGS", "NAMED", "OFFERED", "PACK_IDS", "SHIPPED_TOOLS"]

SHIPPED_TOOLS: Final[tuple[Tool[Any, Any], ...]] = (*CORE_TOOLS, *CATALOG_TOOLS, *PACK_TOOLS)

PACK_IDS: Final = frozenset(tool.name for tool in PACK_TOOLS)
NAMED: Final = "named"
"""Models are offered the core pack only where a message or a chat names its tools."""
OFFERED: Final = "offered"
"""Each request describes the whole core pack."""
CORE_PACK_SETTINGS: Final = (NAMED, OFFERED)
"""The values of the manifest's setting `core_pack`. Without it the core pack is found on demand."""
