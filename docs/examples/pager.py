from collections.abc import Mapping
from typing import Any, Protocol

from demiurge.world.effect import EffectCall, Restart, Result, succeeded
from demiurge.world.effect_kinds import Capability, EffectFamily, EffectKind, Parameter
from demiurge.world.effect_kinds.types import NAT, TEXT, option, record, set_of
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent


class Pager(Protocol):
    """The capability: belongs to `tools/capabilities.py`."""

    async def send(self, number: str, text: str) -> int: ...


def _number(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    return None if params["number"] in (grant.get("numbers") or ()) else "number_not_allowed"


PAGER = EffectFamily(  # the description: belongs to `world/effect_kinds/pager.py`
    cap_type="pager",
    kinds=(
        EffectKind(
            name="pager.send",
            params=record(number=TEXT, text=TEXT),
            receipt=record(message=NAT),
            origins=("plan", "reducer", "tool"),
            changes=True,
            typed_receipt="sys/PagerSent@1",
            notes={"message": "its number at the network"},
        ),
    ),
    grant=record(numbers=option(set_of(TEXT))),
    grant_notes={"numbers": "absent means none"},
    compared={"number": Parameter(TEXT)},
    checks=(_number,),
    adapter="pager:PagerEffects",
    restart="`unknown_outcome`: never a second time",
    capability=Capability(Pager, "pager:WorldPager", "`send(number, text)`"),
)

network: list[tuple[str, str]] = []
"""The outside."""


class PagerEffects:
    """The adapter: belongs to `world/effects/pager.py`."""

    kinds = PAGER.names

    @classmethod
    def bind(cls, _parts: WorldParts) -> "PagerEffects":
        return cls()

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "in_doubt"

    async def perform(self, call: EffectCall) -> Result:
        network.append((call.intent.params["number"], call.intent.params["text"]))
        return succeeded(message=len(network))


class WorldPager:
    """The class behind the capability, beside the adapter."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def send(self, number: str, text: str) -> int:
        return int((await ask(self._call, "pager.send", number=number, text=text))["message"])
