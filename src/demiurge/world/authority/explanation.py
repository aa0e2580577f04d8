"""Who may have an effect, before anybody asks for it: which grant would cover it, and which rule decides.

The same functions decide as when it is asked for (`admission`), but for what only its parameters say: whether the grant
covers those, whether an `http.request` is one that a `read_only` tool may make, and of `tool.call` what the tool policy
says of the tool.
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
    """What is decided of one who asks under one grant. `name`: of the plan, the reducer's module or the tool, "" for
    any; `rule`: the index of the policy's rule that decides, None where none does."""

    kind: str
    name: str
    grant: str
    admission: Admission
    rule: int | None = None


def askers(manifest: Manifest, effect: EffectType) -> Iterator[tuple[str, str, str]]:
    """Those who may ask for it as the manifest is: `(kind, name, grant)`; a tool that is none in particular."""
    for plan in manifest.plans.values():
        for grant in sorted({cap for kind, cap in _emitted(plan) if kind == effect.kind}):
            yield "plan", plan.name, grant
    for module in manifest.modules.values():
        for grant in module.effects.get(effect.kind, ()):
            yield "reducer", module.name, grant
    if "tool" in effect.origins:
        yield "tool", "", _only_grant(manifest, effect)


def rulings(manifest: Manifest, effect: EffectType, kind: str, name: str, now_ns: int) -> list[Ruling]:
    """Of the plan, reducer or tool of this name: under each grant that it names, else under each of the effect's type.
    `now_ns` is wall time."""
    named = [grant for *who, grant in askers(manifest, effect) if who == [kind, name]]
    if kind == "tool":
        named = [_only_grant(manifest, effect)]
    grants = named or _grants(manifest, effect) or [""]
    return [ruling(manifest, effect, kind, name, grant, now_ns) for grant in grants]


def ruling(manifest: Manifest, effect: EffectType, kind: str, name: str, grant: str, now_ns: int) -> Ruling:
    """One of them."""
    origin = {"kind": kind, "name": name}
    denied = ungranted(manifest, effect, grant, origin, now_ns)
    if denied is not None:
        said = _no_grant(manifest, effect) if denied.code == "no_grant" and not grant else denied.message
        return Ruling(kind, name, grant, replace(denied, message=said))
    admission = by_policy(manifest, effect, grant, origin)
    word, _, number = admission.rule.partition(" ")
    return Ruling(kind, name, grant, admission, int(number) if word == "rule" else None)


def _emitted(plan: WorldPlan) -> Iterator[tuple[str, str]]:
    """`(kind, grant)` of each effect that a plan asks for."""
    for step in plan.steps.values():
        if step["op"] == "emit_effect":
            yield step["kind"], step["cap"]


def _only_grant(manifest: Manifest, effect: EffectType) -> str:
    """The grant that a tool's request falls under: the one of the effect's type, if there is just one."""
    names = _grants(manifest, effect)
    return names[0] if len(names) == 1 else ""


def _no_grant(manifest: Manifest, effect: EffectType) -> str:
    """Why one who names no grant has none."""
    if _grants(manifest, effect):
        return f"several grants of type {effect.cap_type}: a tool can't choose"
    return f"no grant of type {effect.cap_type}"


def _grants(manifest: Manifest, effect: EffectType) -> list[str]:
    return [grant.name for grant in manifest.grants.values() if grant.cap_type == effect.cap_type]
