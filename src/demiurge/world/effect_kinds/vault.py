"""`vault.put` and `vault.rotate`: their parameters, and which of them a grant of type `vault` covers.

The secret vault belongs to the user and serves other worlds as well, so an absent list of `aliases` covers none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.tools.capabilities import VaultAccess
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, Parameter
from demiurge.world.effect_kinds.types import NAT, TEXT, option, record, set_of

__all__ = ["VAULT"]


def _alias(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    return None if params["alias"] in (grant.get("aliases") or ()) else "alias_not_allowed"


VAULT: Final = EffectFamily(
    cap_type="vault",
    kinds=(
        EffectKind(
            name="vault.put",
            params=record(alias=TEXT, value_ref=TEXT, expected_digest=option(TEXT)),
            receipt=record(alias=TEXT, version=NAT, digest=option(TEXT)),
            changes=True,
            stays_inside=True,
            notes={"value_ref": "sealed"},
        ),
        EffectKind(
            name="vault.rotate",
            params=record(alias=TEXT, bytes=option(NAT)),
            receipt=record(alias=TEXT, version=NAT, digest=option(TEXT), previous_version=NAT),
            changes=True,
            stays_inside=True,
        ),
    ),
    grant=record(aliases=option(set_of(TEXT))),
    grant_notes={"aliases": "names in the user's vault; absent means none"},
    compared={"alias": Parameter(TEXT)},
    checks=(_alias,),
    adapter="demiurge.world.effects.vault:VaultEffects",
    restart="looks whether the vault has its version; if not, makes it",
    capability=Capability(
        VaultAccess,
        "demiurge.world.effects.vault:WorldVaultAccess",
        "`put(alias, value)`, `rotate(alias, size=)`: a new version of a [secret](secret-versions.md), by name",
        seals=True,
    ),
)
