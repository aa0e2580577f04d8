"""What every world has: the `sys/*` definitions, which no manifest may define anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

__all__ = ["RESERVED", "WORKSPACE_EVENTS", "WORKSPACE_ROUTE", "system_definitions"]

RESERVED = "sys/"

WORKSPACE_ROUTE: Mapping[str, str] = MappingProxyType(
    {"event": "sys/WorkspaceEvent@1", "module": "sys/Workspace@1", "key_field": "$value.workspace"}
)

WORKSPACE_EVENTS = frozenset({"sys/WorkspaceEvent@1", "sys/WorkspaceCommit@1", "sys/WorkspaceEdit@1"})
"""What moves a workspace on: an effect's commit under a grant, or a person's edit. No plan raises them."""


@cache
def system_definitions() -> tuple[Mapping[str, Any], ...]:
    """The `sys/*` definitions that every new manifest is given; one that is stored keeps its own."""
    text = resources.files("demiurge.world").joinpath("air/sys.json").read_text("utf-8")
    return tuple(json.loads(text))
