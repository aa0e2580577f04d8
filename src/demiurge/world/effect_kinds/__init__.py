"""The kinds of effect that every world has, each described in one module: schemas, cap, checks, adapter, capability.

Everything here is data and pure functions. The manifest's built-in definitions, the kernel's decisions, a world's
adapters and capabilities, and the tables of the docs page are made from these descriptions. Imports `values`, the
protocols of `tools`, and `world.usage`.
"""

from demiurge.world.effect_kinds.kind import Capability, Check, EffectFamily, EffectKind, Parameter
from demiurge.world.effect_kinds.llm import LLM
from demiurge.world.effect_kinds.registry import FAMILIES, tables
from demiurge.world.effect_kinds.tool_call import TOOL

__all__ = [
    "FAMILIES",
    "LLM",
    "TOOL",
    "Capability",
    "Check",
    "EffectFamily",
    "EffectKind",
    "Parameter",
    "tables",
]
