"""`EffectKind` and `EffectFamily`: the description of a kind of effect, as data and pure functions.

A family is the kinds of effect that one type of cap covers, such as `blob.put` and `blob.get`. The rest of the program
knows a kind by its description alone: the schemas of every manifest are made from it, the kernel decides with its
functions, a world finds its adapter and capability through it, and the docs page is written from it. The code that
reaches outside (the adapter, the capability) is named and not imported, because the kernel reads the descriptions and
does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from demiurge.values.refs import Ref
from demiurge.values.type_expr import TypeExpr
from demiurge.world.effect_kinds.types import BYTES, TEXT, option, record, ref
from demiurge.world.usage import Used

__all__ = [
    "Capability",
    "Check",
    "EffectFamily",
    "EffectKind",
    "Parameter",
    "ReadBlob",
    "among_ops",
    "at_most",
    "in_list",
]

Check = Callable[[Mapping[str, Any], str, Mapping[str, Any]], str | None]
"""`(grant parameters, kind of effect, effect parameters) -> code of the denial, or None`."""

ReadBlob = Callable[[Ref], bytes]

_ERROR = ref("sys/EffectError@1")


class Parameter(NamedTuple):
    """A field of an effect's parameters that a grant is compared with. It may be `absent`, or an option (`null`)."""

    type: TypeExpr
    absent: bool = False
    null: bool = False


class Capability(NamedTuple):
    """The interface through which a tool asks for the effects of a family. `protocol` is the type that a handler finds
    in its resources; `entry_point` names the class behind it, as `module:class`, which is made with the tool's
    `EffectCall`, and with the world's `Sealing` as well if it `seals`; `methods` is the docs text."""

    protocol: type[Any]
    entry_point: str
    methods: str
    seals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectKind:
    """One kind of effect.

    `params` and `receipt` are its schemas: a `ref` names a schema that is defined elsewhere. `origins` says who may ask
    for it: `plan`, `both` (plans and tools), or a list of `plan`, `reducer`, `tool`. `typed_receipt` is the name of the
    event that brings its receipt back to a reducer (`sys/EffectReceipt@1` if it has none).

    `changes`: it changes what others see, so a `read_only` tool may not ask for it; `changes_with` decides by the
    parameters instead. `stays_inside`: what it changes is the world's own, so no outsider can notice.
    `answers_refusals`: its adapter also answers refused intents. `wants` returns the most that it may use of a budget,
    by its parameters; `used` returns what it has used, by its receipt; `priced`: its cost is known only afterwards.

    `takes` and `gives` replace, on the docs page, the fields of the two schemas; `notes` adds a remark to a field."""

    name: str
    params: TypeExpr
    receipt: TypeExpr
    origins: str | Sequence[str] = "both"
    changes: bool = False
    changes_with: Callable[[Mapping[str, Any]], bool] | None = None
    stays_inside: bool = False
    answers_refusals: bool = False
    typed_receipt: str | None = None
    wants: Callable[[Mapping[str, Any]], Used] | None = None
    used: Callable[[Mapping[str, Any], Mapping[str, Any], ReadBlob], Used] | None = None
    priced: bool = False
    title: str = ""
    """The first part of its schemas' names, if that does not follow from `name`."""
    takes: str = ""
    gives: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def params_schema(self) -> str:
        return self._schema(self.params, "Params")

    @property
    def receipt_schema(self) -> str:
        return self._schema(self.receipt, "Receipt")

    def _schema(self, expr: TypeExpr, suffix: str) -> str:
        if "ref" in expr:
            return str(expr["ref"])
        words = self.title or "".join(word.capitalize() for word in self.name.replace(".", "_").split("_"))
        return f"sys/{words}{suffix}@1"

    def schemas(self) -> Iterator[tuple[str, TypeExpr]]:
        """Yields the schemas that this kind defines."""
        for name, expr in ((self.params_schema, self.params), (self.receipt_schema, self.receipt)):
            if "ref" not in expr:
                yield name, expr
        if self.typed_receipt is not None:
            payload = option(ref(self.receipt_schema))
            yield (
                self.typed_receipt,
                record(intent=BYTES, key=TEXT, status=TEXT, payload=payload, error=option(_ERROR)),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFamily:
    """The kinds of effect that grants of one `cap_type` cover.

    `grant` is the schema of such a grant's parameters, `compared` names the effect parameters that a grant is compared
    with, and `checks` compare them: every check must return None. `schemas` are the schemas that the kinds share.
    `newer_grants` are the schemas of versions 2, 3, ... of the cap, because a definition that worlds have recorded is
    not changed. `adapter` names the class that performs the effects, as `module:class`; its `bind` makes the adapter
    (`demiurge.world.effects.binding`). `grant_notes` and `restart` are docs texts: remarks on the parameters of a
    grant, and what happens after a crash to an effect that was begun."""

    cap_type: str
    kinds: tuple[EffectKind, ...]
    grant: TypeExpr
    adapter: str
    restart: str
    capability: Capability | None = None
    newer_grants: tuple[TypeExpr, ...] = ()
    compared: Mapping[str, Parameter] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    schemas: Mapping[str, TypeExpr] = field(default_factory=dict)
    grant_notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kinds."""
        return tuple(kind.name for kind in self.kinds)

    def definitions(self) -> Iterator[dict[str, Any]]:
        """Yields the definitions that this family adds to every new manifest: schemas, then effects, then the cap."""
        schemas = [*self.schemas.items(), *(schema for kind in self.kinds for schema in kind.schemas())]
        for name, expr in schemas:
            yield {"$kind": "defschema", "name": name, "type": expr}
        for kind in self.kinds:
            yield {
                "$kind": "defeffect",
                "name": f"sys/{kind.name}@1",
                "kind": kind.name,
                "params_schema": kind.params_schema,
                "receipt_schema": kind.receipt_schema,
                "cap_type": self.cap_type,
                "origin_scope": kind.origins if isinstance(kind.origins, str) else list(kind.origins),
                **({"changes": True} if kind.changes else {}),
                **({"answers_refusals": True} if kind.answers_refusals else {}),
            }
        for version, schema in enumerate((self.grant, *self.newer_grants), 1):
            name = f"sys/{self.cap_type}@{version}"
            yield {"$kind": "defcap", "name": name, "cap_type": self.cap_type, "schema": schema}


def in_list(field: str, param: str, code: str) -> Check:
    """Returns a check that an effect's `param` is in the list `field` of the grant, if the grant has that list."""

    def check(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
        allowed = grant.get(field)
        return code if allowed is not None and params.get(param) not in allowed else None

    return check


def among_ops(grant: Mapping[str, Any], kind: str, _params: Mapping[str, Any]) -> str | None:
    """A check that the grant's field `ops` names the part of the effect's name after the dot, if the grant has it."""
    ops = grant.get("ops")
    return "op_not_allowed" if ops is not None and kind.partition(".")[2] not in ops else None


def at_most(field: str, param: str, code: str) -> Check:
    """Returns a check that an effect's `param` is not more than the grant's `field`, if the grant has that field."""

    def check(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
        limit = grant.get(field)
        return code if limit is not None and params[param] > limit else None

    return check
