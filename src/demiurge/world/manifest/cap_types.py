"""Checks of user-defined effects and caps that have a built-in cap type.

The checks of a built-in type compare an effect's parameters with a grant's (`world.effect_kinds`). A user-defined
effect or cap needs the same parameters in the same form, else the kernel would deny every such effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from demiurge.values.type_expr import TypeExpr, kind_of
from demiurge.world.effect_kinds import Parameter, tables
from demiurge.world.manifest.folder import ManifestPart
from demiurge.world.manifest.known import Known
from demiurge.world.manifest.problem import Problem
from demiurge.world.manifest.system import RESERVED

__all__ = ["cap_problems", "effect_problems"]


def effect_problems(part: ManifestPart, known: Known) -> Iterator[Problem]:
    """Yields a problem for each parameter that a grant of the effect's cap type is compared with and that the effect
    lacks."""
    schema, cap_type = part.content["params_schema"], part.content["cap_type"]
    family, place = tables().families.get(cap_type), part.place.at("params_schema")
    compared = family.compared if family is not None else {}
    if schema not in known.schemas:
        return
    kind, body = kind_of(_resolved({"ref": schema}, known))
    fields = body if kind == "record" else {}
    for name, parameter in compared.items():
        found = fields.get(name)
        if found is None and not parameter.absent:
            fix = f"add it, or define a cap type of your own in place of {cap_type}"
            yield place.wrong(f"{schema} has no field {name}, which {cap_type} is about", fix)
        elif found is not None and not _fits(found, parameter, known):
            what = f"the field {name} of {schema} is not of the type that {cap_type} is about"
            yield place.wrong(what, f"write {_written(parameter.type)}, or define a cap type of your own")


def cap_problems(part: ManifestPart, known: Known) -> Iterator[Problem]:
    """Yields a problem for each parameter of a cap of a built-in type that differs from the built-in cap's parameter of
    that name."""
    content, place = part.content, part.place.at("schema")
    found = (cap for name, cap in known.names("defcap").items() if name.startswith(RESERVED))
    built_in = [cap for cap in found if cap["cap_type"] == content["cap_type"]]
    schema = content["schema"]
    if not built_in or not isinstance(schema, Mapping):
        return
    fields = schema.get("record")
    if not isinstance(fields, Mapping):
        yield place.wrong(f"a cap of type {content['cap_type']} has a record", 'write {"record": {...}}')
        return
    newest = built_in[-1]
    for name, expr in newest["schema"]["record"].items():
        if name in fields and fields[name] != expr:
            what = f"{name} is not of the type that it has in {newest['name']}"
            yield place.at("record", name).wrong(what, f"write {_written(expr)}")


def _fits(found: TypeExpr, parameter: Parameter, known: Known) -> bool:
    found = _resolved(found, known)
    if parameter.null and "option" in found:
        found = found["option"]
    return _is(found, parameter.type, known)


def _is(found: TypeExpr, wanted: TypeExpr, known: Known) -> bool:
    """Returns whether two types have the same values. It terminates because the built-in types are finite."""
    kind, body = kind_of(_resolved(found, known))
    want, parts = kind_of(_resolved(wanted, known))
    if kind != want:
        return False
    if kind in ("record", "variant", "map"):
        return set(body) == set(parts) and all(_is(body[name], parts[name], known) for name in parts)
    return _is(body, parts, known) if kind in ("list", "set", "option") else True


def _resolved(expr: TypeExpr, known: Known) -> TypeExpr:
    """Returns the type behind a reference, as its definition writes it."""
    while "ref" in expr:
        expr = known.schemas[expr["ref"]]
    return expr


def _written(expr: TypeExpr) -> str:
    kind, body = kind_of(expr)
    return str(body) if kind == "ref" else kind
