"""Explanations: which grant and which rule would decide on an effect, before anything asks for it.

The same functions decide as in `admission`, except for decisions that need the effect's parameters: whether the grant
covers them, whether an `http.request` is one that a `read_only` tool may make, and the tool policy's decision on a
`tool.call`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from demiurge.world.authority.admission import Admission, by_policy, ungranted
from demiurge.world.manifest import EffectType, Manifest
from demiurge.world.plan import WorldPlan

__all__ = ["Ruling", "askers", "ruling", "rulings"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision on one asker under one grant. `name` is the name of the plan, the reducer's module or the tool (""
    for any tool); `rule` is the index of the deciding policy rule, None if no rule decides."""

    kind: str
    name: str
    grant: str
    admission: Admission
    rule: int | None = None


def askers(manifest: Manifest, effect: EffectType) -> Iterator[tuple[str, str, str]]:
    """Yields the plans, reducers and tools that may ask for the effect under the manifest, as `(kind, name, grant)`.
    Tools are one entry without a name."""
    for plan in manifest.plans.values():
        for grant in sorted({cap for kind, cap in _emitted(plan) if kind == effect.kind}):
            yield "plan", plan.name, grant
    for module in manifest.modules.values():
        for grant in module.effects.get(effect.kind, ()):
            yield "reducer", module.name, grant
    if "tool" in effect.origins:
        yield "tool", "", _only_grant(manifest, effect)


def rulings(manifest: Manifest, effect: EffectType, kind: str, name: str, now_ns: int) -> list[Ruling]:
    """Returns the decisions on the plan, reducer or tool of this name: under each grant that it names, else under each
    grant of the effect's type. `now_ns` is wall time."""
    named = [grant for *who, grant in askers(manifest, effect) if who == [kind, name]]
    if kind == "tool":
        named = [_only_grant(manifest, effect)]
    grants = named or _grants(manifest, effect) or [""]
    return [ruling(manifest, effect, kind, name, grant, now_ns) for grant in grants]


def ruling(manifest: Manifest, effect: EffectType, kind: str, name: str, grant: str, now_ns: int) -> Ruling:
    """Returns the decision on one asker under one grant. `now_ns` is wall time."""
    origin = {"kind": kind, "name": name}
    denied = ungranted(manifest, effect, grant, origin, now_ns)
    if denied is not None:
        message = _no_grant(manifest, effect) if denied.code == "no_grant" and not grant else denied.message
        return Ruling(kind, name, grant, replace(denied, message=message))
    admission = by_policy(manifest, effect, grant, origin)
    word, _, number = admission.rule.partition(" ")
    return Ruling(kind, name, grant, admission, int(number) if word == "rule" else None)


def _emitted(plan: WorldPlan) -> Iterator[tuple[str, str]]:
    """Yields `(kind, grant)` of each effect that a plan asks for."""
    for step in plan.steps.values():
        if step["op"] == "emit_effect":
            yield step["kind"], step["cap"]


def _only_grant(manifest: Manifest, effect: EffectType) -> str:
    """Returns the grant that a tool's request falls under: the one of the effect's type, or "" if there are none or
    several."""
    names = _grants(manifest, effect)
    return names[0] if len(names) == 1 else ""


def _no_grant(manifest: Manifest, effect: EffectType) -> str:
    """Returns why an asker that names no grant has none."""
    if _grants(manifest, effect):
        return f"several grants of type {effect.cap_type}: a tool can't choose"
    hint = "; --allow-host HOST or http= of World.open gives one" if effect.cap_type == "http.out" else ""
    return f"no grant of type {effect.cap_type}{hint}"


def _grants(manifest: Manifest, effect: EffectType) -> list[str]:
    return [grant.name for grant in manifest.grants.values() if grant.cap_type == effect.cap_type]
