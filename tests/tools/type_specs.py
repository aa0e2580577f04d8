"""Python types by description: plain JSON says what a type is, and from it come the type itself, the schema that it
must have, and values that fit it. So another process can make the very same types."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import partial
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union
from uuid import UUID

from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, create_model
from typing_extensions import TypedDict

from demiurge.tools import compile_schema
from demiurge.tools.authoring.hidden_text import hidden_character
from demiurge.values import canonical_json

Spec = dict[str, Any]

_FORMATS = {"date": date, "uuid": UUID, "ipv4": IPv4Address}
_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_SIZES = {"str": "Length", "list": "Items", "tuple": "Items", "sequence": "Items", "dict": "Properties"}
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"


@dataclasses.dataclass
class Tree:
    children: list[Tree]


@dataclasses.dataclass
class One:
    a: int


@dataclasses.dataclass
class Two:
    b: int


class Pair(NamedTuple):
    a: int


class Shape(Enum):
    ROUND = (1, 2)


class Colour(Enum):
    RED = 1


REFUSED: dict[str, Any] = {
    "union of objects": One | Two,
    "union with a list": int | list[int],
    "union with a constraint": Annotated[int, Field(ge=1)] | str,
    "itself": Tree,
    "fixed tuple": tuple[int, str],
    "named tuple": Pair,
    "choice of tuples": Shape,
    "literal of a member": Literal[Colour.RED],
    "keys that are no text": dict[int, str],
    "lazy items": Iterable[int],
    "callable": Callable[[], int],
    "class": type[int],
}
"""What the subset can't say, or JSON can't give."""


class Kind(NamedTuple):
    """What a kind of type is in Python, in JSON Schema (without its constraints), and in values."""

    build: Callable[[Spec, str], Any]
    schema: Callable[[Spec, bool], Spec]
    values: Callable[[Spec], st.SearchStrategy[Any]]


def build(spec: Spec, name: str = "T") -> Any:
    """The type. `name` is for the classes in it."""
    constraints = {key: spec[key] for key in _KEYWORDS if key in spec}
    constraints |= {f"{key}_length": spec[key] for key in ("min", "max") if key in spec}
    kind = KINDS[spec["k"]].build(spec, name)
    return Annotated[kind, Field(**constraints)] if constraints else kind


def expected(spec: Spec, *, lenient: bool = False) -> Spec:
    """The schema of the type. `lenient`: with null where arguments may say it although the schema does not."""
    schema, _ = _expected(spec, lenient)
    schema.pop("description", None)
    return schema


def values(spec: Spec) -> st.SearchStrategy[Any]:
    """JSON values that the schema accepts."""
    return KINDS[spec["k"]].values(spec)


def default_of(entry: Spec, kind: Any) -> Any:
    """`...` for a required field, else its default."""
    return TypeAdapter(kind).validate_json(json.dumps(entry["default"])) if "default" in entry else ...


def doc_of(spec: Spec) -> str | None:
    told = [entry for entry in spec["fields"] if entry["how"] == "doc"]
    if not told:
        return None
    lines = [f"    {entry['name']}: {entry['text']}" for entry in told]
    return "\n".join([f"{spec['doc']}\n\nArgs:", *lines])


def _enum(spec: Spec, name: str) -> Any:
    made: Any = Enum(f"{name}E", {f"M{index}": value for index, value in enumerate(spec["values"])})  # type: ignore[misc]
    made.__doc__ = spec["doc"]
    return made


def _object(spec: Spec, name: str) -> Any:
    fields = []
    for index, entry in enumerate(spec["fields"]):
        kind = build(entry["type"], f"{name}{index}")
        default = default_of(entry, kind)
        said = {"description": entry["text"]} if entry["how"] == "field" else {}
        if named := said | ({"alias": entry["alias"]} if entry["alias"] else {}):
            kind = Annotated[kind, Field(**named)]
        if entry["how"] == "annotated":
            kind = Annotated[kind, entry["text"]]
        fields.append((entry, kind, default))
    made = _FORMS.get(spec["form"], _dataclass)(spec, name, fields)
    if spec["form"] != "typeddict":
        made.__doc__ = doc_of(spec)
    return made


def _model(spec: Spec, name: str, fields: list[Any]) -> Any:
    members: dict[str, Any] = {entry["name"]: (kind, default) for entry, kind, default in fields}
    return create_model(name, __doc__=doc_of(spec), **members)


def _typeddict(spec: Spec, name: str, fields: list[Any]) -> Any:
    members = {entry["name"]: kind if default is ... else NotRequired[kind] for entry, kind, default in fields}
    return TypedDict(name, members)  # type: ignore[operator]


def _dataclass(spec: Spec, name: str, fields: list[Any]) -> Any:
    members = []
    for entry, kind, default in fields:
        metadata = {"description": entry["text"]} if entry["how"] == "metadata" else {}
        if default is ...:
            made = dataclasses.field(metadata=metadata)
        elif type(default).__hash__ is None:
            made = dataclasses.field(metadata=metadata, default_factory=partial(_same, default))
        else:
            made = dataclasses.field(metadata=metadata, default=default)
        members.append((entry["name"], kind, made))
    return dataclasses.make_dataclass(name, members, kw_only=True, frozen=spec["form"] == "frozen")


_FORMS = {"model": _model, "typeddict": _typeddict}


def _same(value: Any) -> Any:
    return value


def _expected(spec: Spec, lenient: bool) -> tuple[Spec, bool]:
    """The schema, and whether null is a value too."""
    if spec["k"] == "optional":
        return _expected(spec["of"], lenient)[0], True
    schema = {_KEYWORDS[key]: spec[key] for key in _KEYWORDS if key in spec}
    schema |= {f"{key}{_SIZES[spec['k']]}": spec[key] for key in ("min", "max") if key in spec}
    return schema | KINDS[spec["k"]].schema(spec, lenient), False


def _items(spec: Spec, lenient: bool) -> Spec:
    schema, nullable = _expected(spec["item"], lenient)
    return _with_null(schema) if nullable else schema


def _object_schema(spec: Spec, lenient: bool) -> Spec:
    properties, required = {}, []
    for entry in spec["fields"]:
        given = entry["alias"] or entry["name"]
        schema, nullable = _expected(entry["type"], lenient)
        if nullable and (lenient or not _is_left_out(entry, spec)):
            schema = _with_null(schema)
        properties[given] = {**schema, "description": entry["text"]} if entry["text"] else schema
        if "default" not in entry:
            required.append(given)
    told = doc_of(spec) is not None and spec["form"] != "typeddict"
    result: Spec = {"type": "object", "properties": properties, "additionalProperties": False}
    return (
        result | ({"required": sorted(required)} if required else {}) | ({"description": spec["doc"]} if told else {})
    )


def _object_values(spec: Spec) -> st.SearchStrategy[Any]:
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for entry in spec["fields"]:
        kind = entry["type"]
        while kind["k"] == "optional" and _is_left_out(entry, spec):
            kind = kind["of"]
        (optional if "default" in entry else required)[entry["alias"] or entry["name"]] = values(kind)
    return st.fixed_dictionaries(required, optional=optional)


def _is_left_out(entry: Spec, spec: Spec) -> bool:
    """Is None said by leaving the field out?"""
    return entry.get("default", ...) is None and spec["form"] != "typeddict"


def _with_null(schema: Spec) -> Spec:
    types = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", ["null"])
    if "null" in types:
        return schema
    return {**schema, "type": [*types, "null"]} | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})


def _order(value: Any) -> tuple[str, Any]:
    return type(value).__name__, "" if value is None else value


def _choice(options: list[Any]) -> Spec:
    unique = list({(type(value).__name__, value): value for value in options}.values())
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    types = sorted({names[type(value)] for value in unique})
    return {"enum": unique, "type": types[0] if len(types) == 1 else types}


def _integers(spec: Spec) -> st.SearchStrategy[Any]:
    step = spec.get("multiple_of", 1)
    least, most = spec.get("ge", -100), spec.get("lt", 200) - 1
    return st.integers(-(-least // step), most // step).map(lambda number: number * step)


def _floats(spec: Spec) -> st.SearchStrategy[Any]:
    return st.floats(spec.get("gt", -100) + 0.25, spec.get("le", 200) - 0.25, width=16)


def _texts(spec: Spec) -> st.SearchStrategy[Any]:
    letters = st.sampled_from("abc") if "pattern" in spec else st.characters(exclude_categories=["Cs"])
    return st.text(letters, min_size=max(spec.get("min", 0), "pattern" in spec), max_size=spec.get("max", 3))


def _lists(spec: Spec) -> st.SearchStrategy[Any]:
    return st.lists(values(spec["item"]), min_size=spec.get("min", 0), max_size=spec.get("max", 3))


def _maps(spec: Spec) -> st.SearchStrategy[Any]:
    keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    return st.dictionaries(keys, values(spec["item"]), min_size=spec.get("min", 0), max_size=spec.get("max", 3))


def _scalar(kind: Any, name: str, strategy: Callable[[Spec], st.SearchStrategy[Any]], **more: Any) -> Kind:
    return Kind(lambda spec, _: kind, lambda spec, _: {"type": name, **more}, strategy)


def _sequence(kind: Callable[[Any], Any]) -> Kind:
    return Kind(
        lambda spec, name: kind(build(spec["item"], f"{name}I")),
        lambda spec, lenient: {"type": "array", "items": _items(spec, lenient)},
        _lists,
    )


_SAMPLES = {"date": st.dates().map(str), "uuid": st.uuids().map(str), "ipv4": st.ip_addresses(v=4).map(str)}

KINDS: dict[str, Kind] = {
    "int": _scalar(int, "integer", _integers),
    "float": _scalar(float, "number", _floats),
    "str": _scalar(str, "string", _texts),
    "bool": _scalar(bool, "boolean", lambda spec: st.booleans()),
    "null": _scalar(None, "null", lambda spec: st.none()),
    "decimal": _scalar(Decimal, "string", lambda spec: st.decimals(-999, 999, places=2).map(str), pattern=_DECIMAL),
    "any": Kind(
        lambda spec, name: Any,
        lambda spec, lenient: {},
        lambda spec: st.sampled_from([None, 1, "x", [1, None], {"k": True}]),
    ),
    "format": Kind(
        lambda spec, name: _FORMATS[spec["of"]],
        lambda spec, lenient: {"type": "string", "format": spec["of"]},
        lambda spec: _SAMPLES[spec["of"]],
    ),
    "literal": Kind(
        lambda spec, name: Literal[tuple(spec["values"])],
        lambda spec, lenient: _choice(sorted(spec["values"], key=_order)),
        lambda spec: st.sampled_from(spec["values"]),
    ),
    "enum": Kind(
        _enum,
        lambda spec, lenient: _choice(spec["values"]) | ({"description": spec["doc"]} if spec["doc"] else {}),
        lambda spec: st.sampled_from(spec["values"]),
    ),
    "choices": Kind(
        lambda spec, name: Union[_enum(spec["enum"], name), Literal[tuple(spec["values"])]],  # noqa: UP007
        lambda spec, lenient: _choice(sorted([*spec["enum"]["values"], *spec["values"]], key=_order)),
        lambda spec: st.sampled_from([*spec["enum"]["values"], *spec["values"]]),
    ),
    "scalars": Kind(
        lambda spec, name: Union[tuple(build({"k": each}) for each in spec["of"])],  # noqa: UP007
        lambda spec, lenient: {"type": sorted(KINDS[each].schema({}, lenient)["type"] for each in spec["of"])},
        lambda spec: st.one_of(*(values({"k": each}) for each in spec["of"])),
    ),
    "list": _sequence(lambda item: list[item]),  # type: ignore[valid-type]
    "tuple": _sequence(lambda item: tuple[item, ...]),  # type: ignore[valid-type]
    "sequence": _sequence(lambda item: Sequence[item]),  # type: ignore[valid-type]
    "set": Kind(
        lambda spec, name: set[build(spec["item"])],  # type: ignore[misc]
        lambda spec, lenient: {"type": "array", "items": _items(spec, lenient), "uniqueItems": True},
        lambda spec: st.lists(values(spec["item"]), max_size=3, unique=True),
    ),
    "dict": Kind(
        lambda spec, name: dict[str, build(spec["item"], f"{name}I")],  # type: ignore[misc]
        lambda spec, lenient: {"type": "object", "additionalProperties": _items(spec, lenient) or True},
        _maps,
    ),
    "optional": Kind(
        lambda spec, name: Optional[build(spec["of"], name)],  # noqa: UP045
        lambda spec, lenient: {},
        lambda spec: st.none() | values(spec["of"]),
    ),
    "refused": Kind(lambda spec, name: REFUSED[spec["of"]], lambda spec, lenient: {}, lambda spec: st.nothing()),
    "object": Kind(_object, _object_schema, _object_values),
}


WORDS = st.text(
    st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]).filter(
        lambda letter: not hidden_character(letter)
    ),
    min_size=1,
    max_size=12,
)
PLAIN_WORDS = st.text(st.sampled_from("abc é"), min_size=1, max_size=12).map(str.strip).filter(bool)
NAMES = ["alpha", "beta_1", "items", "type", "enum", "properties", "required", "straße"]
ALIASES = ["with space", "a-b", "$ref", "日本", "anyOf"]
_CHOICES = st.lists(
    st.sampled_from(["a", "b", "é", 1, 2, -1, True, False]), min_size=1, max_size=3, unique_by=lambda v: (type(v), v)
)
_MEMBERS = st.lists(st.sampled_from(["a", "b", 3, 1.5, True]), min_size=1, max_size=3, unique=True)
_ENUM = st.fixed_dictionaries({"k": st.just("enum"), "values": _MEMBERS, "doc": st.none() | st.just("What it means.")})


SCALAR_SPECS: st.SearchStrategy[Spec] = st.one_of(
    st.sampled_from([{"k": kind} for kind in ("int", "float", "str", "bool", "any", "null", "decimal")]),
    st.fixed_dictionaries(
        {"k": st.just("int")},
        optional={"ge": st.integers(-5, 5), "lt": st.integers(20, 90), "multiple_of": st.integers(1, 4)},
    ),
    st.fixed_dictionaries({"k": st.just("float")}, optional={"gt": st.integers(-5, 5), "le": st.integers(20, 90)}),
    st.fixed_dictionaries(
        {"k": st.just("str")},
        optional={"min": st.integers(0, 2), "max": st.integers(3, 5), "pattern": st.just("^[a-c]+$")},
    ),
    st.fixed_dictionaries({"k": st.just("format"), "of": st.sampled_from(sorted(_FORMATS))}),
    st.fixed_dictionaries({"k": st.just("literal"), "values": _CHOICES | st.just(["a", None])}),
    _ENUM,
    st.fixed_dictionaries(
        {"k": st.just("choices"), "enum": _ENUM.map(lambda e: {**e, "doc": None}), "values": _CHOICES}
    ),
    st.lists(st.sampled_from(["int", "str", "bool"]), min_size=2, max_size=3, unique=True).map(
        lambda names: {"k": "scalars", "of": names}
    ),
    st.sampled_from([{"k": "int"}, {"k": "str"}]).map(lambda item: {"k": "set", "item": item}),
)
_SIZED = {"min": st.integers(0, 1), "max": st.integers(2, 3)}


def _larger(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    return st.one_of(
        st.fixed_dictionaries(
            {"k": st.sampled_from(["list", "tuple", "sequence", "dict"]), "item": inner}, optional=_SIZED
        ),
        inner.map(lambda spec: {"k": "optional", "of": spec}),
        objects(inner, ["dataclass", "frozen", "model", "typeddict"]),
    )


@st.composite
def objects(draw: Any, inner: st.SearchStrategy[Spec], forms: list[str]) -> Spec:
    form = draw(st.sampled_from(forms))
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    aliases = draw(st.permutations(ALIASES))
    fields = []
    for index, name in enumerate(names):
        kind = draw(inner)
        hows = {"typeddict": ["none", "field"], "model": ["none", "field", "annotated", "doc"]}
        how = draw(st.sampled_from(hows.get(form, ["none", "field", "annotated", "doc", "metadata"])))
        words = {"none": st.none(), "doc": PLAIN_WORDS}.get(how, WORDS)
        entry: Spec = {"name": name, "type": kind, "how": how, "text": draw(words), "alias": None}
        if draw(st.integers(0, 3)) == 0:
            entry["alias"] = aliases[index]
        match draw(st.sampled_from(["required", "none", "value"])):
            case "none" if kind["k"] in ("optional", "any", "null"):
                entry["default"] = None
            case "value":
                entry["default"] = draw(values(kind))
        fields.append(entry)
    return {"k": "object", "form": form, "fields": fields, "doc": draw(PLAIN_WORDS)}


SPECS = st.recursive(SCALAR_SPECS, _larger, max_leaves=5)
PARAMS = objects(SPECS, ["dataclass", "frozen", "model"])


def encoded(specs: list[Spec]) -> list[str]:
    """The schemas' bytes."""
    return [canonical_json.encode(compile_schema(build(spec))).decode() for spec in specs]


if __name__ == "__main__":
    print(json.dumps(encoded(json.load(sys.stdin))))
