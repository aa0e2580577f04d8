from __future__ import annotations

import json
from collections import UserList
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demiurge.errors import InvalidValue, NotFound
from demiurge.values import Schemas, Validator, Vector, canonical_json, cbor

REF = "sha256:" + "0a" * 32
UUID = "123e4567-e89b-12d3-a456-426614174000"
TEXT: dict[str, Any] = {"text": {}}
NAT: dict[str, Any] = {"nat": {}}

CHAT = Schemas(
    {
        "demo/ChatEvent@1": {
            "variant": {
                "ChatCreated": {"ref": "demo/ChatCreated@1"},
                "UserMessage": {"ref": "demo/UserMessage@1"},
            }
            | {"Stopped": {"unit": {}}, "Titled": {"option": TEXT}}
        },
        "demo/ChatCreated@1": {"record": {"chat_id": TEXT, "created_at_ms": NAT}},
        "demo/UserMessage@1": {
            "record": {
                "chat_id": TEXT,
                "request_id": NAT,
                "message_ref": {"hash": {}},
                "tool_refs": {"option": {"list": {"hash": {}}}},
                "files": {"map": {"key": TEXT, "value": {"record": {"n": NAT}}}},
            }
        },
        "demo/Tree@1": {"record": {"name": TEXT, "kids": {"list": {"ref": "demo/Tree@1"}}}},
        "demo/Alias@1": {"ref": "demo/Tree@1"},
        "demo/Chain@1": {"record": {"next": {"option": {"ref": "demo/Chain@1"}}, "at": {"hash": {}}}},
    }
)
EVENT = CHAT.validator("demo/ChatEvent@1")
MESSAGE = {"chat_id": "chat-1", "request_id": 1, "message_ref": REF, "files": {}}


def validator(expr: dict[str, Any]) -> Validator:
    return Schemas({}).validator(expr)


def refusal_of(check: Validator, value: object) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        check.normalise(value)
    return caught.value


def test_definitions_are_found_by_name() -> None:
    assert CHAT.names == tuple(sorted(CHAT.names))
    assert "demo/Tree@1" in CHAT
    assert "demo/Tree@2" not in CHAT
    assert CHAT.get("demo/Alias@1") == {"ref": "demo/Tree@1"}
    assert CHAT.validator("demo/Tree@1") is CHAT.validator("demo/Tree@1")
    with pytest.raises(NotFound):
        CHAT.validator("demo/Tree@2")
    with pytest.raises(InvalidValue):
        CHAT.validator({"ref": "demo/Tree@2"})


def test_definitions_are_not_changed_from_outside() -> None:
    defs: dict[str, Any] = {"t/T@1": {"record": {"a": TEXT}}}
    schemas = Schemas(defs)
    defs["t/T@1"]["record"]["b"] = TEXT
    assert schemas.validator("t/T@1").normalise({"a": "x"}) == {"a": "x"}


@pytest.mark.parametrize(
    ("kind", "value", "normal"),
    [
        ("text", "ü", "ü"),
        ("text", "", ""),
        ("bool", True, True),
        ("int", -5, -5),
        ("int", 2**200, 2**200),
        ("int", str(-(2**53)), -(2**53)),
        ("nat", 0, 0),
        ("nat", str(2**64), 2**64),
        ("dec128", "0.70", "0.7"),
        ("dec128", 2, "2"),
        ("bytes", b"\xff", b"\xff"),
        ("bytes", "/w==", b"\xff"),
        ("bytes", "", b""),
        ("time", 1, 1),
        ("time", "1970-01-01T00:00:01+00:00", 10**9),
        ("time", str(2**60), 2**60),
        ("duration", -1, -1),
        ("duration", str(2**60), 2**60),
        ("hash", REF, REF),
        ("uuid", UUID, UUID),
        ("uuid", UUID.upper(), UUID),
        ("unit", None, None),
    ],
)
def test_each_primitive_type_normalises_its_values(kind: str, value: object, normal: object) -> None:
    found = validator({kind: {}}).normalise(value)
    assert found == normal
    assert type(found) is type(normal)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", 1),
        ("text", b"x"),
        ("text", None),
        ("text", "\ud800"),
        ("bool", 1),
        ("bool", "true"),
        ("bool", None),
        ("int", True),
        ("int", 1.0),
        ("int", "5"),
        ("int", str(2**53 - 1)),
        ("int", "9" * 20 + ".0"),
        ("nat", -1),
        ("nat", str(-(2**60))),
        ("nat", False),
        ("dec128", 0.5),
        ("dec128", True),
        ("dec128", "NaN"),
        ("dec128", "Infinity"),
        ("dec128", "1" * 35),
        ("dec128", ""),
        ("bytes", "ÿ"),
        ("bytes", "/w"),
        ("bytes", "/x=="),
        ("bytes", [255]),
        ("time", 1.5),
        ("time", 2**63),
        ("time", "1970-01-01T00:00:01"),
        ("time", "yesterday"),
        ("duration", "PT1S"),
        ("duration", -(2**63) - 1),
        ("hash", REF[:-1]),
        ("hash", REF.upper()),
        ("hash", REF + "\n"),
        ("hash", "md5:" + "0" * 32),
        ("hash", "\ud800"),
        ("uuid", UUID.replace("-", "")),
        ("uuid", UUID[:-1] + "g"),
        ("uuid", "{" + UUID + "}"),
        ("unit", {}),
        ("unit", 0),
    ],
)
def test_formats_are_checked(kind: str, value: object) -> None:
    problem = refusal_of(validator({kind: {}}), value)
    assert problem.code == "invalid_value"
    assert problem.path == ""


def test_a_record_has_exactly_its_fields_and_options_default_to_null() -> None:
    check = CHAT.validator("demo/UserMessage@1")
    assert check.normalise(MESSAGE) == {**MESSAGE, "tool_refs": None}
    assert check.normalise(MappingProxyType(MESSAGE)) == {**MESSAGE, "tool_refs": None}
    assert refusal_of(check, {**MESSAGE, "extra": 1}).path == "extra"
    assert refusal_of(check, {name: item for name, item in MESSAGE.items() if name != "chat_id"}).path == "chat_id"
    for value in (None, [], "x", 1, [("chat_id", "x")]):
        assert refusal_of(check, value).path == ""


def test_a_variant_may_be_written_in_two_ways() -> None:
    normal = {"$tag": "ChatCreated", "$value": {"chat_id": "c", "created_at_ms": 1}}
    assert EVENT.normalise(normal) == normal
    assert EVENT.normalise({"ChatCreated": normal["$value"]}) == normal
    spellings = [{"$tag": "Stopped"}, {"$tag": "Stopped", "$value": None}, {"Stopped": None}]
    for stopped in (*spellings, {"$tag": "Stopped", "$value": {}}, {"Stopped": {}}):
        assert EVENT.normalise(stopped) == {"$tag": "Stopped", "$value": None}, "seed 000 writes `Auto { }`"
    assert EVENT.normalise({"$tag": "Titled"}) == {"$tag": "Titled", "$value": None}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"$tag": "Nope", "$value": None}, ""),
        ({"Nope": None}, ""),
        ({"$tag": 3}, ""),
        ({"$tag": ["Stopped"]}, ""),
        ({"$value": None}, ""),
        ({}, ""),
        ("Stopped", ""),
        (None, ""),
        ({"ChatCreated": {}, "Stopped": None}, ""),
        ({"$tag": "Stopped", "$value": {"more": 1}}, "$value"),
        ({"$tag": "Stopped", "more": 1}, "more"),
        ({"$tag": "ChatCreated"}, "$value"),
        ({"$tag": "ChatCreated", "$value": []}, "$value"),
        ({"ChatCreated": {"chat_id": 5, "created_at_ms": 1}}, "$value.chat_id"),
        ({"UserMessage": {**MESSAGE, "message_ref": "x"}}, "$value.message_ref"),
        ({"UserMessage": {**MESSAGE, "tool_refs": [REF, "x"]}}, "$value.tool_refs[1]"),
        ({"UserMessage": {**MESSAGE, "tool_refs": REF}}, "$value.tool_refs"),
        ({"UserMessage": {**MESSAGE, "files": {"a": {"n": -1}}}}, "$value.files.a.n"),
        ({"UserMessage": {**MESSAGE, "files": {"a/b.md": {"n": -1}}}}, '$value.files["a/b.md"].n'),
        ({"UserMessage": {**MESSAGE, "files": {"a": {"n": 1, "m": 2}}}}, "$value.files.a.m"),
        ({"UserMessage": {**MESSAGE, "files": {3: {"n": 1}}}}, "$value.files[key]"),
        ({"UserMessage": {**MESSAGE, "files": []}}, "$value.files"),
        ({"UserMessage": {**MESSAGE, "chat_id": "\udfff"}}, "$value.chat_id"),
    ],
    ids=repr,
)
def test_errors_name_the_path(value: object, path: str) -> None:
    problem = refusal_of(EVENT, value)
    assert problem.path == path
    assert str(problem).startswith(path)


def test_all_wrong_places_are_named() -> None:
    problem = refusal_of(EVENT, {"UserMessage": {"chat_id": 1, "request_id": -1, "message_ref": "", "more": 0}})
    for name in ("chat_id", "request_id", "message_ref", "files", "more"):
        assert f"$value.{name}" in str(problem)


SECRET = "hunter2-secret"


@pytest.mark.parametrize(
    ("expr", "value"),
    [({kind: {}}, SECRET) for kind in ("bool", "int", "nat", "dec128", "time", "duration", "hash", "uuid", "unit")]
    + [
        ({"bytes": {}}, "!" + SECRET),
        ({"record": {"a": TEXT}}, SECRET),
        ({"list": TEXT}, SECRET),
        ({"set": TEXT}, SECRET),
        ({"map": {"key": TEXT, "value": TEXT}}, SECRET),
        ({"map": {"key": {"hash": {}}, "value": TEXT}}, {SECRET: "x"}),
        ({"map": {"key": NAT, "value": NAT}}, {SECRET: 1}),
        ({"variant": {"A": TEXT}}, SECRET),
        ({"variant": {"A": TEXT}}, {"$tag": SECRET}),
        ({"variant": {"A": TEXT}}, {SECRET: "x"}),
        ({"variant": {"A": NAT}}, {"A": SECRET}),
        ({"option": NAT}, SECRET),
        ({"list": NAT}, [1, SECRET]),
    ],
    ids=repr,
)
def test_a_message_never_holds_the_value(expr: dict[str, Any], value: object) -> None:
    problem = refusal_of(validator(expr), value)
    assert SECRET not in str(problem)
    assert SECRET not in problem.message + problem.path


def test_lists_take_sequences_and_not_sets_or_text() -> None:
    check = validator({"list": {"int": {}}})
    for value in ([3, 1], (3, 1), UserList([3, 1]), range(3, -1, -2)):
        assert check.normalise(value) == [3, 1]
    for wrong in ({1, 2}, "12", b"12", {1: 2}, iter([1]), None):
        refusal_of(check, wrong)


def test_sets_are_sorted_by_their_encoding_without_duplicates() -> None:
    check = validator({"set": {"int": {}}})
    for value in ([300, -1, 5, 5, 24], {300, -1, 5, 24}, (24, 300, -1, 5)):
        assert check.normalise(value) == [5, 24, 300, -1]
    assert validator({"set": {"bytes": {}}}).normalise(["/w==", b"\xff"]) == [b"\xff"]


def test_maps_are_in_canonical_order_and_refuse_two_spellings_of_a_key() -> None:
    numbers = validator({"map": {"key": {"int": {}}, "value": TEXT}})
    assert list(numbers.normalise({"-1": "a", 1000: "b", "7": "c"}).items()) == [
        (7, "c"),
        (1000, "b"),
        (-1, "a"),
    ]
    for wrong in ({"1": "a", 1: "b"}, {"01": "a"}, {"1.0": "a"}, {True: "a"}, {"x": "a"}):
        refusal_of(numbers, wrong)
    refusal_of(validator({"map": {"key": NAT, "value": TEXT}}), {"-1": "a"})
    words = validator({"map": {"key": TEXT, "value": {"unit": {}}}})
    assert list(words.normalise({"bb": None, "ä": None, "c": None})) == ["c", "bb", "ä"]
    ids = validator({"map": {"key": {"uuid": {}}, "value": NAT}})
    assert ids.normalise({UUID.upper(): 1}) == {UUID: 1}
    refusal_of(ids, {UUID.upper(): 1, UUID: 2})


def test_types_may_be_recursive() -> None:
    leaf = {"name": "leaf", "kids": []}
    tree = {"name": "root", "kids": [leaf, {"name": "twig", "kids": [leaf]}]}
    check = CHAT.validator("demo/Alias@1")
    assert check.normalise(tree) == tree
    assert check.to_json(tree) == tree
    tree["kids"] = [leaf, {"name": "twig", "kids": [{"name": 1, "kids": []}]}]
    assert refusal_of(check, tree).path == "kids[1].kids[0].name"


def test_endless_and_very_deep_values_are_refused() -> None:
    loop: dict[str, Any] = {"name": "x", "kids": []}
    loop["kids"].append(loop)
    assert "itself" in str(refusal_of(CHAT.validator("demo/Tree@1"), loop))
    chain: Any = None
    for _ in range(10_000):
        chain = {"next": chain, "at": REF}
    assert "deep" in str(refusal_of(CHAT.validator("demo/Chain@1"), chain))


def test_refs_are_found_in_order() -> None:
    refs = [f"sha256:{n:064x}" for n in range(5)]
    value = EVENT.normalise(
        {"UserMessage": {**MESSAGE, "message_ref": refs[0], "tool_refs": [refs[2], refs[1], refs[2]]}}
    )
    assert EVENT.has_refs
    assert EVENT.refs(value) == [refs[2], refs[1], refs[2], refs[0]]  # the canonical order of the fields
    assert EVENT.refs(EVENT.normalise({"Stopped": None})) == []
    chain = CHAT.validator("demo/Chain@1")
    assert chain.refs(chain.normalise({"at": refs[0], "next": {"at": refs[1], "next": None}})) == [
        refs[0],
        refs[1],
    ]
    keyed = validator({"map": {"key": {"hash": {}}, "value": {"option": {"hash": {}}}}})
    assert keyed.refs(keyed.normalise({refs[1]: refs[0], refs[3]: None})) == [refs[1], refs[0], refs[3]]
    tree = CHAT.validator("demo/Tree@1")
    assert not tree.has_refs
    assert tree.refs({"name": "x", "kids": []}) == []


def test_json_has_no_bytes_big_integers_or_integer_keys() -> None:
    check = validator(
        {
            "record": {"raw": {"bytes": {}}, "big": {"int": {}}, "at": {"time": {}}, "none": {"option": TEXT}}
            | {"by_number": {"map": {"key": {"int": {}}, "value": {"set": NAT}}}, "ok": {"bool": {}}}
        }
    )
    value = {
        "raw": b"\xff",
        "big": -(2**60),
        "at": 1_700_000_000_000_000_000,
        "by_number": {-3: [1]},
        "ok": True,
    }
    assert check.to_json(check.normalise(value)) == {
        "at": "1700000000000000000",
        "big": str(-(2**60)),
        "by_number": {"-3": [1]},
        "none": None,
        "ok": True,
        "raw": "/w==",
    }


MESSAGES = validator({"record": {"items": {"list": {"record": {"n": NAT, "title": {"option": TEXT}}}}}})


def test_a_vector_stays_one_and_only_its_new_items_are_checked() -> None:
    stored = MESSAGES.normalise({"items": Vector.of({"n": number} for number in range(1_000))})["items"]
    assert isinstance(stored, Vector)
    assert stored[999] == {"n": 999, "title": None}
    stored.root()
    assert MESSAGES.normalise({"items": stored})["items"] is stored
    longer = MESSAGES.normalise({"items": stored.append({"n": 1})})["items"]
    assert isinstance(longer, Vector)
    assert longer == [*stored, {"n": 1, "title": None}]
    assert len(longer.root()[1]) == 1
    assert MESSAGES.to_json({"items": longer})["items"][-1] == {"n": 1, "title": None}


def test_a_wrong_item_of_a_vector_is_named_by_its_place() -> None:
    stored: Vector[Any] = Vector.of({"n": number, "title": None} for number in range(100))
    stored.root()
    assert refusal_of(MESSAGES, {"items": stored.append({"n": 100}).append({"n": -1})}).path == "items[101].n"


# Generated types with values that conform to them


def records(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.text("abcdefgh_", min_size=1, max_size=9)
    return st.dictionaries(names, inner, max_size=4)


LEAVES = ["bool", "int", "nat", "dec128", "bytes", "text", "time", "duration", "hash", "uuid", "unit"]
types: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.sampled_from([{kind: {}} for kind in LEAVES]),
    lambda inner: (
        records(inner).map(lambda fields: {"record": fields})
        | records(inner).filter(bool).map(lambda arms: {"variant": arms})
        | st.sampled_from(["list", "set", "option"]).flatmap(lambda kind: inner.map(lambda item: {kind: item}))
        | st.tuples(st.sampled_from(["int", "nat", "text", "uuid", "hash"]), inner).map(
            lambda pair: {"map": {"key": {pair[0]: {}}, "value": pair[1]}}
        )
    ),
    max_leaves=8,
)

int64 = st.integers(-(2**63), 2**63 - 1)
DIGITS = st.integers(-(10**30), 10**30)
LEAF_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers() | st.integers(min_value=2**53).map(str),
    "nat": st.integers(min_value=0) | st.integers(min_value=2**53).map(str),
    "dec128": DIGITS | st.tuples(DIGITS, st.integers(-40, 40)).map(lambda pair: f"{pair[0]}e{pair[1]}"),
    "bytes": st.binary(max_size=8),
    "text": st.text(max_size=8),
    "time": int64 | st.datetimes().filter(lambda at: 1700 < at.year < 2200).map(lambda at: at.isoformat() + "Z"),
    "duration": int64,
    "hash": st.binary(min_size=32, max_size=32).map(lambda raw: "sha256:" + raw.hex()),
    "uuid": st.uuids().map(str) | st.uuids().map(lambda found: str(found).upper()),
    "unit": st.none(),
}
KEY_VALUES = {
    **LEAF_VALUES,
    "int": st.integers(),
    "nat": st.integers(min_value=0),
    "uuid": st.uuids().map(str),
}


def conforming(expr: dict[str, Any]) -> st.SearchStrategy[Any]:
    ((kind, body),) = expr.items()
    if kind in LEAF_VALUES:
        return LEAF_VALUES[kind]
    if kind == "record":
        return st.fixed_dictionaries({name: conforming(part) for name, part in body.items()})
    if kind == "variant":
        arms = [st.tuples(st.just(tag), conforming(part)) for tag, part in body.items()]
        return st.one_of(arms).flatmap(
            lambda arm: st.sampled_from([{"$tag": arm[0], "$value": arm[1]}, {arm[0]: arm[1]}])
        )
    if kind == "map":
        (key_kind,) = body["key"]
        return st.dictionaries(KEY_VALUES[key_kind], conforming(body["value"]), max_size=4)
    if kind == "option":
        return st.none() | conforming(body)
    return st.lists(conforming(body), max_size=4)


cases = types.flatmap(lambda expr: st.tuples(st.just(expr), conforming(expr)))
lenient = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def order(value: object) -> object:
    """`value` with the order of its map keys made visible to `==`."""
    if isinstance(value, dict):
        return [(key, order(item)) for key, item in value.items()]
    return [order(item) for item in value] if isinstance(value, list) else value


@given(cases)
@lenient
def test_normal_form_is_reached_once_and_survives_storage(case: tuple[dict[str, Any], Any]) -> None:
    expr, value = case
    check = validator(expr)
    normal = check.normalise(value)
    assert order(check.normalise(normal)) == order(normal)
    decoded = cbor.decode(cbor.encode(normal))
    assert order(decoded) == order(normal)
    assert order(check.normalise(decoded)) == order(normal)


@given(cases)
@lenient
def test_json_leads_back_to_the_normal_form(case: tuple[dict[str, Any], Any]) -> None:
    expr, value = case
    check = validator(expr)
    normal = check.normalise(value)
    text = canonical_json.encode(check.to_json(normal))
    assert order(check.normalise(canonical_json.parse(text))) == order(normal)
    assert order(check.normalise(json.loads(json.dumps(check.to_json(normal))))) == order(normal)


@given(cases)
@lenient
def test_refs_are_the_hash_leaves(case: tuple[dict[str, Any], Any]) -> None:
    expr, value = case
    check = validator(expr)
    refs = check.refs(check.normalise(value))
    assert check.has_refs == ('"hash"' in json.dumps(expr))
    assert all(ref.startswith("sha256:") for ref in refs)


def spoiled(expr: dict[str, Any], value: Any) -> list[Any]:
    """Values like `value` that don't conform: one place each is wrong."""
    ((kind, body),) = expr.items()
    found: list[Any] = [object()]
    if kind == "record":
        found.append({**value, "no_such": None})
        for name, part in body.items():
            found += [{**value, name: wrong} for wrong in spoiled(part, value[name])]
            if not {"option", "unit"} & set(part):
                found.append({key: item for key, item in value.items() if key != name})
    elif kind == "variant":
        arm, inner = value["$tag"], value["$value"]
        found += [{"$tag": arm, "$value": wrong} for wrong in spoiled(body[arm], inner)]
        found += [{"$tag": "no_such", "$value": inner}, {**value, "more": 1}]
    elif kind in ("list", "set"):
        found += [[*value, wrong] for item in value[:1] for wrong in spoiled(body, item)]
    elif kind == "map":
        found += [{**value, key: wrong} for key, item in value.items() for wrong in spoiled(body["value"], item)]
        found += [{**value, 1.5: item} for item in list(value.values())[:1]]
    elif kind == "option":
        found += [] if value is None else [wrong for wrong in spoiled(body, value) if wrong is not None]
    elif kind != "unit":
        found += [None, 1.5, [value]]
    return found


@given(cases)
@lenient
def test_values_spoiled_in_one_place_are_refused(case: tuple[dict[str, Any], Any]) -> None:
    expr, value = case
    check = validator(expr)
    for wrong in spoiled(expr, check.normalise(value)):
        refusal_of(check, wrong)
