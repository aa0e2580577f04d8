"""The tables of the page on effects, made from the descriptions of the effect kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from demiurge.world.effect_kinds import EffectFamily, EffectKind, tables
from demiurge.world.manifest.parts import ORIGINS, origins_of

__all__ = ["TABLES"]


def _kinds() -> Iterable[str]:
    yield from ("| effect | takes | gives | cap | asked for by |", "|---|---|---|---|---|")
    for family in tables().families.values():
        for kind in family.kinds:
            takes, gives = _takes(kind), _gives(kind)
            yield f"| `{kind.name}` | {takes} | {gives} | `{family.cap_type}` | {_askers(kind)} |"


def _takes(kind: EffectKind) -> str:
    return kind.takes or _fields(_record(kind.params_schema), kind.notes) or "nothing"


def _gives(kind: EffectKind) -> str:
    fields = {name: expr for name, expr in _record(kind.receipt_schema).items() if name != "reading"}
    return kind.gives or _fields(fields, kind.notes)


def _askers(kind: EffectKind) -> str:
    admitted = origins_of(kind.origins if isinstance(kind.origins, str) else list(kind.origins))
    return ", ".join(f"{origin}s" for origin in sorted(ORIGINS) if origin in admitted)


def _record(schema: str) -> Mapping[str, Any]:
    """The fields of a built-in schema."""
    (expr,) = (d["type"] for d in tables().definitions if d["name"] == schema)
    fields: Mapping[str, Any] = expr["record"]
    return fields


def _fields(fields: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    return ", ".join(_field(name, "option" in expr, notes) for name, expr in fields.items())


def _field(name: str, is_optional: bool, notes: Mapping[str, str]) -> str:
    note = f" ({notes[name]})" if name in notes else ""
    return f"`{name}{'?' if is_optional else ''}`{note}"


def _grants() -> Iterable[str]:
    yield from ("| cap | parameters |", "|---|---|")
    for family in tables().families.values():
        newest = (family.grant, *family.newer_grants)[-1]
        fields = ", ".join(_field(name, False, family.grant_notes) for name in newest["record"])
        yield f"| `{family.cap_type}` | {fields or 'none'} |"


def _capabilities() -> Iterable[str]:
    yield from ("| `demiurge.tools.capabilities` | methods |", "|---|---|")
    for family in tables().families.values():
        if family.capability is not None:
            yield f"| `{family.capability.protocol.__name__}` | {family.capability.methods} |"


def _restarts() -> Iterable[str]:
    yield from ("| effect | what happens |", "|---|---|")
    for family in tables().families.values():
        yield f"| `{_label(family)}` | {family.restart} |"


def _label(family: EffectFamily) -> str:
    """The name of the only kind of a family, or `blob.*`."""
    first, *others = family.names
    return f"{first.partition('.')[0]}.*" if others else first


TABLES: Mapping[str, Callable[[], Iterable[str]]] = {
    "effect kinds": _kinds,
    "grants": _grants,
    "capabilities": _capabilities,
    "restarts": _restarts,
}
"""The name that a page gives in `<!-- table of NAME -->` -> the lines of the table."""
