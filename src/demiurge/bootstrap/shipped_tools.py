"""The tools that every world has: the core tools, the tools for the catalog of prompt tools, and the core pack.

A person or a program may call all of them. A model is offered the core tools (the one that reads large results only
where there may be such results); the tools for the catalog if its message brings the catalog; and the core pack if the
message, its chat or the world's manifest asks for it, because 16 specs would else be paid for in every request.
"""

from __future__ import annotations

from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.registry.catalog_tools import CATALOG_TOOLS
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.ids import READ_RESULT

__all__ = ["CORE_PACK_SETTINGS", "SHIPPED_TOOLS", "is_shipped", "not_offered"]

SHIPPED_TOOLS: Final[tuple[Tool[Any, Any], ...]] = (*CORE_TOOLS, *CATALOG_TOOLS, *PACK_TOOLS)

_SHIPPED: Final = frozenset(tool.name for tool in SHIPPED_TOOLS)
_CATALOG: Final = frozenset(tool.name for tool in CATALOG_TOOLS)
_PACK: Final = frozenset(tool.name for tool in PACK_TOOLS)
_NAMED: Final = "named"
_OFFERED: Final = "offered"
CORE_PACK_SETTINGS: Final = (_NAMED, _OFFERED)
"""The values of the manifest's setting `core_pack`."""


def is_shipped(name: str) -> bool:
    """Returns whether a tool of this name comes with Demiurge."""
    return name in _SHIPPED


def not_offered(core_pack: str | None, *, has_catalog: bool, is_small: bool, has_large_results: bool) -> frozenset[str]:
    """Returns the shipped tools that a message which names no tools does not offer to its model.

    `core_pack`: the setting of the world's manifest. `has_catalog`: the message brings the catalog of prompt tools.
    `is_small`: the model is one of a provider whose prompts have no catalog. `has_large_results`: a result may be
    stored in place of its text, or have a file. Raises InvalidValue (`bad_setting`)."""
    if core_pack not in (None, *CORE_PACK_SETTINGS):
        raise InvalidValue(
            f"The manifest's setting `core_pack` is neither {_NAMED} nor {_OFFERED}: {core_pack!r}.",
            code="bad_setting",
        )
    has_pack = core_pack == _OFFERED and not is_small
    reader = frozenset[str]() if has_large_results else frozenset({READ_RESULT})
    return (frozenset() if has_catalog else _CATALOG) | (frozenset() if has_pack else _PACK) | reader
