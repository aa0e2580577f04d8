"""Other spellings of the core tools and of their arguments, as models without native tool calling write them.

The JSON tool protocol (`demiurge.wire.tool_envelope`) takes both: `{"tool": "read_file", "args": {"path": ...}}` is a
call of `core__file_reader` with `file_path`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from demiurge.registry.core_ids import core_id_of
from demiurge.registry.pack.story import story
from demiurge.registry.pack.tools import PACK_TOOLS

__all__ = ["argument_spellings", "pack_tool_id"]


def pack_tool_id(spelling: str) -> str | None:
    """Returns the id of the callable that a spelling of a core tool stands for, None if it stands for none."""
    core_id = core_id_of(spelling)
    return None if core_id is None else f"core__{core_id}"


@cache
def argument_spellings() -> Mapping[str, Mapping[str, str]]:
    """Returns for the id of each callable its arguments by their other names: those of the pack's data, and each name
    without `_`, which is how `scenePath` reads in lower case."""
    listed = story("arguments")
    return {
        tool.name: {
            **{name.replace("_", ""): name for name in tool.bound.spec.input_schema["properties"] if "_" in name},
            **listed.get(tool.name.removeprefix("core__"), {}),
        }
        for tool in PACK_TOOLS
    }
