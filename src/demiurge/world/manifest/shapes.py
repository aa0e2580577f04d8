"""The form of each part of a manifest: its fields and their values. References are not followed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.policy_problems import policy_problems
from demiurge.tools.spec import ToolSpec
from demiurge.world.manifest.parts import ORIGINS, RULE_FIELDS, DeclaredSecret
from demiurge.world.manifest.problem import ManifestPlace, Problem

__all__ = ["DEFINITIONS", "ROOT", "STEPS", "Check", "did_you_mean", "form_problems", "is_readable"]

Check = Callable[[Any, ManifestPlace], Iterator[Problem]]

_UNVERSIONED = r"[a-z][a-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*"
NAME = re.compile(rf"{_UNVERSIONED}@[1-9][0-9]*")
SECRET_NAME = re.compile(rf"{_UNVERSIONED}@([1-9][0-9]*|\*)")
KIND = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
PATH = re.compile(r"(\$value|\$tag|[A-Za-z_][A-Za-z0-9_-]*)(\.(\$value|\$tag|[A-Za-z_][A-Za-z0-9_-]*))*")


def _anything(_value: Any, _place: ManifestPlace) -> Iterator[Problem]:
    return iter(())


def _text(value: Any, place: ManifestPlace) -> Iterator[Problem]:
    if not isinstance(value, str) or not value:
        yield place.wrong("is no text", "write a text that is not empty")


def _matching(pattern: re.Pattern[str], what: str, example: str) -> Check:
    def check(value: Any, place: ManifestPlace) -> Iterator[Problem]:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            yield place.wrong(f"is no {what}", f"write one such as {example}")

    return check


def _one_of(*allowed: Any) -> Check:
    def check(value: Any, place: ManifestPlace) -> Iterator[Problem]:
        if not any(type(value) is type(one) and value == one for one in allowed):
            yield place.wrong("is none of the words that may stand here", f"write {' or '.join(map(str, allowed))}")

    return check


def _flag(value: Any, place: ManifestPlace) -> Iterator[Problem]:
    if type(value) is not bool:
        yield place.wrong("is neither true nor false", "write true or false")


def _natural(value: Any, place: ManifestPlace) -> Iterator[Problem]:
    if type(value) is not int or value < 0:
        yield place.wrong("is no whole number from 0", "write digits without quotes")


def _or_null(check: Check) -> Check:
    return lambda value, place: iter(()) if value is None else check(value, place)


def _list_of(check: Check) -> Check:
    def check_parts(value: Any, place: ManifestPlace) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield place.wrong("is no list", "write [...]")
            return
        for index, part in enumerate(value):
            yield from check(part, place.at(index))

    return check_parts


def _map_of(check: Check) -> Check:
    def check_parts(value: Any, place: ManifestPlace) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield place.wrong("is no object", "write {...}")
            return
        for name, part in value.items():
            yield from check(part, place.at(name))

    return check_parts


def _object(required: Mapping[str, Check], optional: Mapping[str, Check] = {}) -> Check:
    known = {**required, **optional}

    def check(value: Any, place: ManifestPlace) -> Iterator[Problem]:
        if not isinstance(value, Mapping):
            yield place.wrong("is no object", "write {...}")
            return
        for name in required:
            if name not in value:
                yield place.wrong(f"{name} is missing", f"add {name}")
        for name, part in value.items():
            if name in known:
                yield from known[name](part, place.at(name))
            else:
                yield place.at(name).wrong("is no field of this", did_you_mean(name, known, "leave it out"))

    return check


def did_you_mean(word: object, known: Mapping[str, Any] | frozenset[str], otherwise: str) -> str:
    """Returns what to do about a word that is none of `known`."""
    near = get_close_matches(str(word), list(known), 1)
    if near:
        return f"perhaps you mean {near[0]}"
    few = sorted(known)[:8]
    return f"{otherwise}, or write one of {', '.join(few)}" if 0 < len(few) < 8 else otherwise


def _scope(value: Any, place: ManifestPlace) -> Iterator[Problem]:
    words = value if isinstance(value, list) else [value]
    allowed = {*ORIGINS, "both"} if value is not words else ORIGINS
    if not words or any(not isinstance(word, str) or word not in allowed for word in words):
        fix = 'write plan, tool, reducer, both (plan and tool), or a list such as ["plan", "reducer"]'
        yield place.wrong("does not say who may ask for it", fix)


def _secret(value: Any, place: ManifestPlace) -> Iterator[Problem]:
    try:
        DeclaredSecret.from_definition({"name": "a@1", "binding_id": value})
    except (InvalidValue, TypeError):
        yield place.wrong("names no place of a secret", "write env:NAME, file:/PATH, file:~/PATH or vault:NAME")


def _tool_policy(value: Any, place: ManifestPlace) -> Iterator[Problem]:
    for error in policy_problems(value):
        where = f"{error.path}: " if error.path else ""
        yield place.wrong(f"is no tool policy: {where}{error.message}", "correct it as the page on policies says")


def _tool(value: Any, place: ManifestPlace) -> Iterator[Problem]:
    try:
        ToolSpec.from_json(value)
    except (InvalidValue, KeyError, TypeError, ValueError, AttributeError) as error:
        what = error.message if isinstance(error, InvalidValue) else f"{error} is missing or can't be read"
        yield place.wrong(f"is no tool: {what}", "write name, description, input_schema, effect and redaction")


_name = _matching(NAME, "versioned name", "demo/Thing@1")
_id = _matching(ID, "name of letters, digits, _ and -", "wait")
_path = _matching(PATH, "path of fields", "$value.chat_id")
_kind = _matching(KIND, "kind of effect", "http.request")
_secret_name = _matching(SECRET_NAME, "versioned name", "demo/key@1 or demo/key@*")
_names = _list_of(_name)
_texts = _list_of(_text)
_edge = _object({"from": _text, "to": _text}, {"when": _anything})
_rule = _object(
    {"decision": _one_of("allow", "deny")}, {"when": _object({}, dict.fromkeys(sorted(RULE_FIELDS), _text))}
)

_FIELDS: Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]] = {
    "defschema": ({"type": _anything}, {}),
    "defmodule": (
        {"module_kind": _one_of("reducer"), "abi": _object({"state": _name, "event": _name})},
        {"key_schema": _name, "effects": _list_of(_object({"kind": _text, "cap": _text}))},
    ),
    "defplan": (
        {"input": _name, "steps": _list_of(_anything)},
        {
            "output": _name,
            "locals": _map_of(_name),
            "edges": _list_of(_edge),
            "invariants": _list_of(_anything),
            "required_caps": _texts,
            "allowed_effects": _texts,
        },
    ),
    "defeffect": (
        {
            "kind": _kind,
            "params_schema": _name,
            "receipt_schema": _name,
            "cap_type": _text,
            "origin_scope": _scope,
        },
        {"changes": _flag},
    ),
    "defcap": ({"cap_type": _text, "schema": _anything}, {}),
    "defpolicy": ({"rules": _list_of(_rule)}, {}),
    "defsecret": (
        {"name": _secret_name, "binding_id": _secret},
        {
            "else_binding_ids": _list_of(_secret),
            "allowed_caps": _or_null(_texts),
            "allowed_plans": _or_null(_names),
        },
    ),
    "deftoolset": ({"tools": _list_of(_tool)}, {}),
}

DEFINITIONS: Mapping[str, Check] = {
    kind: _object({"$kind": _text, "name": _name, **required}, optional)
    for kind, (required, optional) in _FIELDS.items()
}
"""Kind of definition -> the check of its form."""

_bound = _object({"as": _id})
_STEP: Mapping[str, Check] = {"id": _id, "op": _text}

STEPS: Mapping[str, Check] = {
    "emit_effect": _object(
        {**_STEP, "kind": _text, "cap": _text, "params": _anything, "bind": _object({"effect_id_as": _id})}
    ),
    "await_receipt": _object({**_STEP, "for": _anything, "bind": _bound}),
    "await_event": _object({**_STEP, "event": _name, "bind": _bound}, {"where": _anything}),
    "raise_event": _object({**_STEP, "event": _name, "value": _anything}, {"budget": _anything}),
    "assign": _object({**_STEP, "expr": _anything, "bind": _bound}),
    "end": _object(_STEP, {"result": _anything}),
}
"""Op -> the check of its step's form."""

ROOT: Check = _object(
    {"$kind": _one_of("manifest")},
    {
        "air_version": _one_of("1"),
        "defaults": _object(
            {},
            {
                "policy": _name,
                "cap_grants": _list_of(
                    _object({"name": _id, "cap": _name}, {"params": _anything, "expiry_ns": _or_null(_natural)})
                ),
            },
        ),
        "routing": _object(
            {}, {"events": _list_of(_object({"event": _name, "module": _name}, {"key_field": _or_null(_path)}))}
        ),
        "triggers": _list_of(_object({"event": _name, "plan": _name}, {"correlate_by": _or_null(_path)})),
        "settings": _map_of(_anything),
        "tool_policy": _tool_policy,
        "toolsets": _names,
        "extends": _text,
        "without": _object(
            {}, {"cap_grants": _list_of(_id), "triggers": _list_of(_object({"event": _name, "plan": _name}))}
        ),
    },
)
"""The check of the form of a root fragment."""


def is_readable(content: Mapping[str, Any], place: ManifestPlace) -> bool:
    """Returns whether a definition has the right form, unknown fields aside, so that its references can be followed."""
    required, optional = _FIELDS[content["$kind"]]
    known = {"$kind", "name", *required, *optional}
    return not any(form_problems({name: part for name, part in content.items() if name in known}, place))


def form_problems(content: Mapping[str, Any], place: ManifestPlace) -> Iterator[Problem]:
    """Yields the problems of the form of a definition or a fragment; for a plan's steps, see `STEPS`."""
    kind = content["$kind"]
    if kind == "manifest":
        yield from ROOT(content, place)
    elif kind in DEFINITIONS:
        yield from DEFINITIONS[kind](content, place)
    else:
        known = frozenset({*DEFINITIONS, "manifest"})
        yield place.at("$kind").wrong(f"there is no kind {kind!r}", did_you_mean(kind, known, "leave it out"))
