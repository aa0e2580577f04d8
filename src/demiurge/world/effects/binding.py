"""Makes the adapters and the capabilities that the effect kinds name, for one world.

A composition root calls `shipped_adapters` once with the parts of its world; a tool call gets its capabilities from
`capabilities`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any, Protocol

from demiurge.models.address import Address
from demiurge.models.port import LanguageModel
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import Observers
from demiurge.tools.ledger.ledger import Ledger
from demiurge.tools.source import ToolSource
from demiurge.values.clock import Clock, Entropy
from demiurge.world.connection_tokens import ConnectionTokens
from demiurge.world.effect import Adapter, EffectCall
from demiurge.world.effect_kinds import tables
from demiurge.world.effects.program_objects import ProgramObjects
from demiurge.world.sealing import Sealing
from demiurge.world.secrets import Secrets
from demiurge.world.sessions import Sessions
from demiurge.world.state import OpenIntent
from demiurge.world.webhook_keys import WebhookKeys

__all__ = ["Bindable", "WorldParts", "capabilities", "shipped_adapters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldParts:
    """The parts of a world that the adapters of its effects need. `is_ours` tells whether this user gave the approval
    of an intent; `resources_of` returns more resources of a running tool; the adapters describe the other fields."""

    clock: Clock
    entropy: Entropy
    secrets: Secrets
    sealing: Sealing
    model: LanguageModel
    addresses: Mapping[str, Address]
    source: ToolSource
    sessions: Sessions | None
    ledger: Ledger | None
    is_ours: Callable[[OpenIntent], bool]
    errors: ToolErrorLog | None
    observers: Observers
    credentials: ConnectionTokens
    webhook_keys: WebhookKeys
    objects: ProgramObjects
    resources_of: Callable[[EffectCall], Mapping[Any, Any]]


class Bindable(Protocol):
    """The class of an adapter, as an effect family names it."""

    def bind(self, parts: WorldParts) -> Adapter:
        """Returns the adapter for a world with these parts."""
        ...


@cache
def _named(entry_point: str) -> Any:
    return resolve_name(entry_point)


def shipped_adapters(parts: WorldParts) -> list[Adapter]:
    """Returns the adapter of each effect family."""
    found: list[Bindable] = [_named(family.adapter) for family in tables().families.values()]
    return [adapter.bind(parts) for adapter in found]


def capabilities(call: EffectCall, sealing: Sealing | None) -> dict[type[Any], Any]:
    """Returns the capabilities of a running tool, by the protocols that its handler asks for. A capability that seals
    values is left out without `sealing`."""
    found = [family.capability for family in tables().families.values() if family.capability is not None]
    plain = {c.protocol: _named(c.entry_point)(call) for c in found if not c.seals}
    return plain | {c.protocol: _named(c.entry_point)(call, sealing) for c in found if c.seals and sealing is not None}
