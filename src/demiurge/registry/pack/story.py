"""The story constants of the core tools: folders, prefixes, words, patterns and limits, as JSON files in `data/`.

A file is named for what it holds, and several tools may read it. The digests of the files are part of the pack's
digests (`load.py`), so a changed file is refused with the whole pack.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from demiurge.registry.pack.load import core_tools

__all__ = ["story"]


@cache
def story(name: str) -> Any:
    """Returns the constants in `data/<name>.json`. Do not change them. Raises Damaged (`core_pack_damaged`)."""
    core_tools()
    return json.loads(resources.files(__package__).joinpath(f"data/{name}.json").read_text("utf-8"))
