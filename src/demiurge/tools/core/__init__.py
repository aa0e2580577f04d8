"""The tools that ship with Demiurge. They import `demiurge.tools` and reach the world through its capabilities."""

from __future__ import annotations

from typing import Any

from demiurge.tools.authoring.tool import Tool
from demiurge.tools.core.ask_user import ask_user
from demiurge.tools.core.find_tools import find_tools
from demiurge.tools.core.introspect import manifest, module, schemas, state
from demiurge.tools.core.read_result import read_result
from demiurge.tools.core.time import get_current_time
from demiurge.tools.core.workspace import list_files, read, write

__all__ = ["CORE_TOOLS"]

CORE_TOOLS: tuple[Tool[Any, Any], ...] = (
    get_current_time,
    ask_user,
    find_tools,
    read_result,
    list_files,
    read,
    write,
    manifest,
    schemas,
    module,
    state,
)
