"""Schema types as short expressions: `record(url=TEXT, ports=option(set_of(NAT)))`."""

from __future__ import annotations

from typing import Final

from demiurge.values.type_expr import TypeExpr

__all__ = [
    "BOOL",
    "BYTES",
    "DEC128",
    "HASH",
    "NAT",
    "SECRET_OR_TEXT",
    "TEXT",
    "UNIT",
    "list_of",
    "map_of",
    "option",
    "record",
    "ref",
    "set_of",
    "variant",
]

BOOL: Final[TypeExpr] = {"bool": {}}
BYTES: Final[TypeExpr] = {"bytes": {}}
DEC128: Final[TypeExpr] = {"dec128": {}}
HASH: Final[TypeExpr] = {"hash": {}}
NAT: Final[TypeExpr] = {"nat": {}}
TEXT: Final[TypeExpr] = {"text": {}}
UNIT: Final[TypeExpr] = {"unit": {}}


def ref(name: str) -> TypeExpr:
    """Returns the type that the schema `name` defines."""
    return {"ref": name}


def record(**fields: TypeExpr) -> TypeExpr:
    return {"record": fields}


def variant(arms: dict[str, TypeExpr]) -> TypeExpr:
    return {"variant": arms}


def option(of: TypeExpr) -> TypeExpr:
    return {"option": of}


def list_of(of: TypeExpr) -> TypeExpr:
    return {"list": of}


def set_of(of: TypeExpr) -> TypeExpr:
    return {"set": of}


def map_of(key: TypeExpr, value: TypeExpr) -> TypeExpr:
    return {"map": {"key": key, "value": value}}


SECRET_OR_TEXT: Final[TypeExpr] = ref("sys/TextOrSecretRef@1")
