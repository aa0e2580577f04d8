"""Says what is wrong with the arguments of a call: which field, and which rule of the schema it breaks.

There is one wording, whoever finds a fault: pydantic (`authoring/params.py`), a validator of JSON Schema
(`foreign/schema.py`), or the check without a tool's code (`argument_problem.py`). A phrase names declared fields and
repeats what the schema says, never a value: a value may be a secret. A field that the model made up is named in the
model's text alone, because its name is the model's text too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from demiurge.tools.authoring.hidden_text import spell_hidden

__all__ = ["ArgumentFault", "Explanation", "explained", "field_path", "phrase_of", "rule_words", "unknown_fields"]

_MAX_PHRASES: Final = 8
_MAX_BYTES: Final = 3_000
"""The maximum length of all phrases, in UTF-8 bytes: a longer message of a failed call would be replaced."""
_MAX_CHOICES: Final = 20
_MAX_NAME: Final = 40
_MAX_UNKNOWN: Final = 3
_MAX_RULE: Final = 200

_TYPES: Final[Mapping[str, str]] = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
_BOUNDS: Final[Mapping[str, str]] = {
    "exclusiveMaximum": "must be less than {}",
    "exclusiveMinimum": "must be more than {}",
    "maximum": "must be at most {}",
    "minimum": "must be at least {}",
    "multipleOf": "must be a multiple of {}",
}
_LENGTHS: Final[Mapping[str, tuple[str, str]]] = {
    "maxItems": ("at most", "item"),
    "maxLength": ("at most", "character"),
    "maxProperties": ("at most", "field"),
    "minItems": ("at least", "item"),
    "minLength": ("at least", "character"),
    "minProperties": ("at least", "field"),
}
_WORDS: Final[Mapping[str, str]] = {
    "additionalItems": "has too many items",
    "contains": "lacks an item that has to be there",
    "falseSchema": "is not allowed",
    "not": "is not allowed",
    "required": "is required",
    "unevaluatedItems": "has too many items",
    "uniqueItems": "must not have the same item twice",
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T09:30:00Z",
    "duration": "P1DT2H",
    "email": "ada@example.com",
    "time": "09:30:00",
    "uri": "https://example.com/page",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_PLAIN: Final = re.compile(r"[^\W\d][\w./@-]*")


class ArgumentFault(NamedTuple):
    """A part of some arguments that breaks its schema. `path`: the path of declared names and indexes, such as
    `items[2].id`, "" for the arguments as a whole; `words`: what is wrong there; `unknown`: the names of fields that
    the schema does not have there, if they are the fault."""

    path: str
    words: str
    unknown: tuple[str, ...] = ()


class Explanation(NamedTuple):
    """Phrases that say what is wrong with some arguments. `fields`: for records, events and screens; `for_model`: the
    same with the names of unknown fields."""

    fields: tuple[str, ...]
    for_model: tuple[str, ...]


def explained(faults: Iterable[ArgumentFault]) -> Explanation:
    """Returns the phrases of some faults, each once, at most eight."""
    merged: dict[tuple[str, str], ArgumentFault] = {}
    for fault in faults:
        before = merged.get((fault.path, fault.words))
        if before is not None and fault.unknown:
            fault = fault._replace(unknown=before.unknown + fault.unknown)
        merged[fault.path, fault.words] = fault
    ordered = sorted(merged.values(), key=lambda fault: bool(fault.unknown))  # their lists of names come last
    fields = _listed([phrase_of(fault, names=False) for fault in ordered])
    if not ordered or not ordered[-1].unknown:
        return Explanation(fields, fields)
    return Explanation(fields, _listed([phrase_of(fault, names=True) for fault in ordered]))


def phrase_of(fault: ArgumentFault, *, names: bool) -> str:
    """Returns a fault as `n: must be at least 1`, or `unknown field colour; known: size, weight`. `names`: whether to
    name the unknown fields."""
    if not fault.unknown:
        return f"{fault.path or 'the object'}: {fault.words}"
    start = f"{fault.path}: " if fault.path else ""
    shown = dict.fromkeys(map(_made_up, fault.unknown)) if names else {}
    few = [*shown][:_MAX_UNKNOWN]
    more = f" and {len(shown) - len(few)} more" if len(shown) > len(few) else ""
    text = f"{start}unknown field{'s' if len(shown) > 1 else ''}{' ' if few else ''}{', '.join(few)}{more}"
    return f"{text}; {fault.words}"


def unknown_fields(path: str, unknown: Sequence[str], known: Iterable[str] | None) -> ArgumentFault:
    """Returns the fault of fields that the schema does not have at `path`. `known`: the names that it has, None if
    they cannot be told."""
    if known is None:
        words = "it is not in the schema"
    else:
        names = sorted(known)
        words = f"known: {_choices(names)}" if names else "no field is allowed"
    return ArgumentFault(path, words, tuple(unknown))


def rule_words(keyword: str, rule: Any = None) -> str:
    """Returns what a keyword of a schema wants of a value. `rule`: the keyword's value; of `type`, one type or a list
    of types."""
    if keyword in _BOUNDS and rule is not None:
        return _BOUNDS[keyword].format(_shown(rule))
    if keyword in _LENGTHS and rule is not None:
        bound, noun = _LENGTHS[keyword]
        return f"must have {bound} {_shown(rule)} {noun}{'' if rule == 1 else 's'}"
    match keyword:
        case "type":
            kinds = (
                [rule] if isinstance(rule, str) else sorted(set(rule or ()), key=lambda kind: (kind == "null", kind))
            )
            return "must be " + (
                " or ".join(_TYPES.get(kind, "of another type") for kind in kinds) or "of another type"
            )
        case "enum" if rule:
            return f"one of {_choices(rule)}" if len(rule) > 1 else f"must be {_choices(rule)}"
        case "const":
            return f"must be {_choices([rule])}"
        case "pattern" if isinstance(rule, str) and len(rule) <= _MAX_RULE:
            return f"must match the pattern {rule}"
        case "pattern":
            return "must match its pattern"
        case "format" if rule in _EXAMPLES:
            return f"must have the format {rule}, such as {_EXAMPLES[rule]}"
        case "format":
            return f"must have the format {_shown(rule)}" if isinstance(rule, str) else "must have its format"
    return _WORDS.get(keyword, "is not valid")


def field_path(path: str, segment: str | int) -> str:
    """Returns the path of a field or an item below `path`."""
    if isinstance(segment, int):
        return f"{path}[{segment}]"
    return f"{path}.{segment}" if path else segment


def _listed(phrases: Sequence[str]) -> tuple[str, ...]:
    """Returns the first phrases, as many as fit a message, and `and more` if there are others."""
    listed: list[str] = []
    size = 0
    for phrase in dict.fromkeys(phrases):
        size += len(phrase.encode())
        if len(listed) == _MAX_PHRASES or (listed and size > _MAX_BYTES):
            return (*listed, "and more")
        listed.append(phrase)
    return tuple(listed)


def _choices(values: Sequence[Any]) -> str:
    """Returns values of a schema as a list, cut at its end if it is long."""
    shown: list[str] = []
    length = 0
    for value in values:
        text = _shown(value)
        length += len(text)
        if len(shown) == _MAX_CHOICES or (shown and length > _MAX_RULE):
            return f"{', '.join(shown)} and {len(values) - len(shown)} more"
        shown.append(text)
    return ", ".join(shown)


def _shown(value: Any) -> str:
    """Returns a value of a schema as text: a plain word as it is, any other text in quotes, anything else as JSON."""
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value not in ("true", "false", "null")
        text = value if is_plain else json.dumps(value, ensure_ascii=False)
    elif isinstance(value, bool | int | float | list | dict) or value is None:
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return text if len(text) <= _MAX_RULE else f"{text[: _MAX_RULE - 1]}…"


def _made_up(name: str) -> str:
    """Returns the name of a field that a model made up: cut, in quotes unless it is a plain word, and with hidden
    characters spelled out."""
    cut = name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
    quoted = json.dumps(cut, ensure_ascii=False)
    spelled = spell_hidden(quoted, lambda hidden: f"<U+{ord(hidden):04X}>")
    return cut if spelled == quoted and _PLAIN.fullmatch(cut) else spelled
