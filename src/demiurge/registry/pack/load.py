"""The records of the core tools, checked against the digests that were shipped with them."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Final

from demiurge.errors import Damaged
from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.prompt_tool import PromptTool
from demiurge.values.refs import ref_of

__all__ = ["core_tool", "core_tools", "pack_digests"]

_RECORDS: Final = "tools.json"
_DIGESTS: Final = "digests.json"


@cache
def core_tools() -> tuple[PromptTool, ...]:
    """Returns the core tools in the order of their ids in `CORE_IDS`. Raises Damaged (`core_pack_damaged`) if a record
    or a file of constants is not the shipped one."""
    shipped = json.loads(_bytes(_DIGESTS))
    found = pack_digests()
    wrong = sorted(name for name in shipped.keys() | found.keys() if shipped.get(name) != found.get(name))
    if wrong:
        raise Damaged(
            f"The shipped core tools were changed ({', '.join(wrong)}). Install the package demiurge-runtime again.",
            code="core_pack_damaged",
        )
    tools = {record["id"]: PromptTool.from_json(record) for record in json.loads(_bytes(_RECORDS))["prompts"]}
    return tuple(tools[core_id] for core_id in CORE_IDS)


@cache
def core_tool(core_id: str) -> PromptTool:
    """Returns a core tool by its id."""
    return next(tool for tool in core_tools() if tool.id == core_id)


def pack_digests() -> dict[str, str]:
    """Returns the digest of each record and of each file of constants, as they are now."""
    records = json.loads(_bytes(_RECORDS))["prompts"]
    data = sorted(resources.files(__package__).joinpath("data").iterdir(), key=lambda file: file.name)
    return {
        **{f"tools/{record['id']}": PromptTool.from_json(record).digest for record in records},
        **{f"data/{file.name}": ref_of(file.read_bytes()) for file in data if file.name.endswith(".json")},
    }


def _bytes(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()
