"""`introspect.*`: their parameters, and which of them a grant of type `query` covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.tools.capabilities import Introspection
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, Parameter
from demiurge.world.effect_kinds.types import BOOL, HASH, NAT, TEXT, list_of, option, record, ref, set_of

__all__ = ["INTROSPECT"]


def _module(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    modules = grant.get("modules")
    if modules is None or params.get("module") in (None, *modules):
        return None
    return "module_not_allowed"


_READING = ref("sys/CellReading@1")

INTROSPECT: Final = EffectFamily(
    cap_type="query",
    kinds=(
        EffectKind(name="introspect.manifest", params=record(), receipt=record(manifest_ref=HASH)),
        EffectKind(
            name="introspect.schemas",
            params=record(prefix=option(TEXT)),
            receipt=record(schemas_ref=HASH, count=NAT, manifest_ref=HASH),
        ),
        EffectKind(
            name="introspect.module", params=record(name=TEXT), receipt=record(module_ref=HASH, manifest_ref=HASH)
        ),
        EffectKind(
            name="introspect.state",
            params=record(module=TEXT, key=TEXT),
            receipt=record(state_ref=option(HASH), reading=ref("sys/UnitReading@1")),
        ),
        EffectKind(
            name="introspect.tools",
            params=record(),
            receipt=record(tools_ref=HASH, in_turn=BOOL, reading=_READING),
            notes={"tools_ref": "the tools that this turn can find; outside a chat, all that the caller may call"},
        ),
        EffectKind(
            name="introspect.journal_head",
            params=record(module=option(TEXT), key=option(TEXT)),
            receipt=record(head=TEXT, manifest_ref=option(HASH), reading=_READING),
            notes={"key": "this unit"},
        ),
        EffectKind(
            name="introspect.list_cells",
            params=record(module=TEXT, cursor=option(TEXT), limit=option(NAT)),
            receipt=record(cells=list_of(ref("sys/IntrospectCell@1")), next_cursor=option(TEXT)),
            notes={"limit": "100, at most 1000", "cells": "`key`, `reading`, `problem?`"},
        ),
    ),
    schemas={
        "sys/CellReading@1": record(unit=TEXT, unit_seq=NAT, state_hash=option(TEXT)),
        "sys/IntrospectCell@1": record(key=TEXT, reading=_READING, problem=option(TEXT)),
    },
    grant=record(modules=option(set_of(TEXT))),
    compared={"module": Parameter(TEXT, absent=True, null=True)},
    checks=(_module,),
    adapter="demiurge.world.effects.introspect:Introspect",
    restart="performed again, with the same key",
    capability=Capability(
        Introspection,
        "demiurge.world.effects.introspect:WorldIntrospection",
        "`manifest`, `state`, `schemas`, `module`, and the `tools` that can be found",
    ),
)
