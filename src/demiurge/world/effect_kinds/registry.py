"""The list of effect families, and the tables that the rest of the program looks things up in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from demiurge.world.effect_kinds.blob import BLOB
from demiurge.world.effect_kinds.http import HTTP
from demiurge.world.effect_kinds.introspect import INTROSPECT
from demiurge.world.effect_kinds.issues import ISSUES
from demiurge.world.effect_kinds.kind import EffectFamily, EffectKind
from demiurge.world.effect_kinds.llm import MODELS
from demiurge.world.effect_kinds.prompt_tools import PROMPT_TOOLS
from demiurge.world.effect_kinds.timer import TIMER
from demiurge.world.effect_kinds.tool_call import TOOLS
from demiurge.world.effect_kinds.vault import VAULT
from demiurge.world.effect_kinds.webhook import WEBHOOK
from demiurge.world.effect_kinds.workspace import WORKSPACE_FILES

__all__ = ["FAMILIES", "Tables", "tables"]

FAMILIES: tuple[EffectFamily, ...] = (
    *(MODELS, TOOLS, HTTP, BLOB, TIMER, VAULT, WORKSPACE_FILES, INTROSPECT, WEBHOOK, PROMPT_TOOLS, ISSUES),
)
"""Every family, in the order of the docs page. A new family goes to the end."""


class Tables(NamedTuple):
    """Tables made from `FAMILIES`: families by cap type, kinds by name, and the definitions of a new manifest."""

    families: Mapping[str, EffectFamily]
    kinds: Mapping[str, EffectKind]
    definitions: tuple[Mapping[str, Any], ...]


@cache
def tables() -> Tables:
    """Returns the tables of `FAMILIES`."""
    return Tables(
        {family.cap_type: family for family in FAMILIES},
        {kind.name: kind for family in FAMILIES for kind in family.kinds},
        _definitions(),
    )


def _definitions() -> tuple[Mapping[str, Any], ...]:
    """Returns the `sys/*` definitions. Their order is part of a manifest's digest, so `air/sys.json` fixes it: the file
    holds the definitions that belong to no effect, and the names of the others. What it does not name comes last."""
    named = {definition["name"]: definition for family in FAMILIES for definition in family.definitions()}
    text = resources.files("demiurge.world").joinpath("air/sys.json").read_text("utf-8")
    listed = [named.pop(entry) if isinstance(entry, str) else entry for entry in json.loads(text)]
    return (*listed, *named.values())
