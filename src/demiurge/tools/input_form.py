"""The form of a question: a flat JSON Schema of type object, read into fields that a person can fill in.

A field is a text, a number, an integer, a yes or no, one of several choices, or several of them. Choices are written as
`enum` (with `enumNames`), as `oneOf`, or for several as the `items` of an array. That is the whole of what a protocol
for questions needs, and all that a terminal and a page can ask for: anything else is refused. Other keywords, such as
`pattern`, are left to whoever asks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, TypeAlias

from pydantic_core import Url

from demiurge.errors import InvalidValue

__all__ = ["FieldKind", "FormChoice", "FormField", "checked_content", "read_form", "value_problem"]

FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice", "choices"]

MAX_FIELDS = 50
MAX_NAME = 128
MAX_CHOICES = 500
MAX_WORDS = 2000
"""The most characters of a title, a description or a choice."""
MAX_TEXT = 8000
"""The most characters of a text, whatever its schema allows."""

_FORMATS = {
    "email": "an e-mail address, such as name@example.com",
    "uri": "an address with a scheme, such as https://example.com",
    "date": "a date, such as 2026-05-31",
    "date-time": "a date and a time with a zone, such as 2026-05-31T09:30:00Z",
}
_YES_OR_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


@dataclass(frozen=True, slots=True)
class FormChoice:
    """One choice of a field: the value that is sent, and the words for it."""

    value: str
    title: str


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form. `title` is the name if the schema has none. `default`: None if there is none. `least` and
    `most`: of a number, of a text's characters, or of how many choices; None: no limit. `format`: `email`, `uri`,
    `date`, `date-time` or "". `enum_names`: the choices were written as `enum` with `enumNames`, the older form."""

    name: str
    kind: FieldKind
    title: str
    description: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[FormChoice, ...] = ()
    format: str = ""
    least: float | None = None
    most: float | None = None
    enum_names: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns the field as JSON, with all its attributes."""
        choices = [{"value": choice.value, "title": choice.title} for choice in self.choices]
        return {
            "name": self.name,
            "kind": self.kind,
            "title": self.title,
            "description": self.description,
            "required": self.required,
            "default": self.default,
            "choices": choices,
            "format": self.format,
            "least": self.least,
            "most": self.most,
            "enum_names": self.enum_names,
        }

    @classmethod
    def of_json(cls, node: Mapping[str, Any]) -> FormField:
        """Reads what `to_json` wrote."""
        choices = tuple(FormChoice(choice["value"], choice["title"]) for choice in node["choices"])
        return cls(**{**node, "choices": choices})

    def typed(self, text: str) -> Any:
        """Returns the value that a person typed: a number for a number, y or n for a boolean, for a choice its number
        from 1, its value or its words, and choices with commas between them. Raises InvalidValue (`bad_answer`)."""
        given = text.strip()
        try:
            value = self._value(given)
        except (ValueError, StopIteration):
            value = given
        problem = value_problem(self, value)
        if problem is not None:
            raise InvalidValue(f"{self.name} {problem}.", code="bad_answer")
        return value

    def _value(self, given: str) -> Any:
        """Raises ValueError, StopIteration."""
        match self.kind:
            case "boolean":
                return _YES_OR_NO.get(given.lower(), given)
            case "integer":
                return int(given)
            case "number":
                return int(given) if given.lstrip("+-").isdecimal() else float(given)
            case "choice":
                return self._choice(given)
            case "choices":
                return [self._choice(one.strip()) for one in given.split(",") if one.strip()]
        return given

    def _choice(self, given: str) -> str:
        by_words = next((c.value for c in self.choices if given in (c.value, c.title)), None)
        if by_words is None and given.isdecimal() and 1 <= int(given) <= len(self.choices):
            return self.choices[int(given) - 1].value
        return given if by_words is None else by_words


def read_form(schema: Any) -> tuple[FormField, ...]:
    """Returns the fields of a form, in the order of the schema. Raises InvalidValue (`bad_question`) with the path of
    what no form can have."""
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or schema.get("type") != "object" or len(properties) > MAX_FIELDS:
        raise _bad("", f"must have type object and at most {MAX_FIELDS} properties")
    required = schema.get("required", [])
    if not isinstance(required, Sequence) or isinstance(required, str):
        raise _bad("required", "must be a list of properties of the form")
    if not all(isinstance(name, str) and name in properties for name in required):
        raise _bad("required", "must name properties of the form")
    return tuple(_field(name, node, name in required) for name, node in properties.items())


def checked_content(fields: Sequence[FormField], content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a person filled in, in the order of the form; a field that was left out has its default. Raises
    InvalidValue (`bad_answer`); `details` has `fields`: the name of each field at fault with a sentence."""
    known = {field.name for field in fields}
    problems = {name: "is not a field of this form" for name in content if name not in known}
    filled = {}
    for field in fields:
        value = content.get(field.name)
        if value is None and field.name not in content:
            value = field.default
        if value is not None:
            filled[field.name] = value
        problem = value_problem(field, value)
        if problem is not None:
            problems[field.name] = problem
    if problems:
        said = "; ".join(f"{name[:MAX_NAME]} {problem}" for name, problem in list(problems.items())[:5])
        raise InvalidValue(
            f"The answer does not fit the form: {said}.", code="bad_answer", details={"fields": problems}
        )
    return filled


def value_problem(field: FormField, value: Any) -> str | None:
    """Returns what is wrong with the value of a field, as the end of a sentence that begins with its name; None if
    nothing is. None stands for a field that was left out."""
    if value is None:
        return "is required" if field.required else None
    match field.kind:
        case "text":
            return _text_problem(field, value)
        case "boolean":
            return None if isinstance(value, bool) else "must be true or false"
        case "number" | "integer":
            return _number_problem(field, value)
        case "choice":
            is_one = any(value == choice.value for choice in field.choices)
            return None if is_one else "must be one of the choices"
    return _choices_problem(field, value)


def _text_problem(field: FormField, value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    if len(value) > MAX_TEXT:
        return f"must have at most {MAX_TEXT} characters"
    if (problem := _limits(field, len(value), "must have", " characters")) is not None:
        return problem
    return None if not field.format or _has_format(field.format, value) else f"must be {_FORMATS[field.format]}"


def _has_format(name: str, value: str) -> bool:
    try:
        match name:
            case "email":
                return _EMAIL.fullmatch(value) is not None
            case "uri":
                return bool(Url(value).scheme)
            case "date":
                return date.fromisoformat(value).isoformat() == value
        return "T" in value.upper() and datetime.fromisoformat(value.upper()).tzinfo is not None
    except ValueError:
        return False


def _number_problem(field: FormField, value: Any) -> str | None:
    if not _is_number(value) or (field.kind == "integer" and value != int(value)):
        return "must be a whole number" if field.kind == "integer" else "must be a number"
    return _limits(field, value, "must be", "")


def _is_number(value: Any) -> bool:
    """Returns whether a value is a number that JSON can have: finite, and no larger than a float can be."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _choices_problem(field: FormField, value: Any) -> str | None:
    values = {choice.value for choice in field.choices}
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(one, str) for one in value):
        return "must be a list of choices"
    if not values.issuperset(value) or len(set(value)) < len(value):
        return "must be some of the choices, each once"
    return _limits(field, len(value), "must have", " choices")


def _limits(field: FormField, size: float, verb: str, unit: str) -> str | None:
    if field.least is not None and size < field.least:
        return f"{verb} at least {field.least:g}{unit}"
    if field.most is not None and size > field.most:
        return f"{verb} at most {field.most:g}{unit}"
    return None


def _field(name: str, node: Any, required: bool) -> FormField:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        raise _bad("properties", f"must have names of 1 to {MAX_NAME} characters")
    if not isinstance(node, Mapping):
        raise _bad(name, "must be a schema")
    kind, choices = _kind(name, node)
    limits = _LIMITS.get(kind, ())
    least, most = (_limit(name, node, key) for key in limits) if limits else (None, None)
    given = node.get("format", "")
    field = FormField(
        name,
        kind,
        _words(name, node, "title") or name,
        _words(name, node, "description"),
        required,
        None,
        choices,
        given if kind == "text" and isinstance(given, str) and given in _FORMATS else "",
        least,
        most,
        kind == "choice" and "oneOf" not in node and "enumNames" in node,
    )
    default = node.get("default")
    if default is None or value_problem(field, default) is not None:  # a default that the form refuses is none
        return field
    return FormField(**{**{key: getattr(field, key) for key in FormField.__slots__}, "default": default})


_LIMITS: Mapping[str, tuple[str, str]] = {
    "text": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}


def _kind(name: str, node: Mapping[str, Any]) -> tuple[FieldKind, tuple[FormChoice, ...]]:
    kind = node.get("type", "string" if "enum" in node or "oneOf" in node else None)
    if kind == "array":
        items = node.get("items")
        if not isinstance(items, Mapping):
            raise _bad(name, "must have items to choose from")
        return "choices", _choices(name, items, "anyOf")
    if kind == "string" and ("enum" in node or "oneOf" in node):
        return "choice", _choices(name, node, "oneOf")
    if kind == "string":
        return "text", ()
    if kind in ("number", "integer", "boolean"):
        return kind, ()
    raise _bad(name, "must be a text, a number, an integer, a boolean, an enum or an array of choices")


def _choices(name: str, node: Mapping[str, Any], titled: str) -> tuple[FormChoice, ...]:
    arms = node.get(titled, node.get("oneOf"))
    if arms is not None:
        if not isinstance(arms, Sequence) or not all(isinstance(arm, Mapping) for arm in arms):
            raise _bad(name, "must have choices with a const each")
        pairs = [(arm.get("const"), arm.get("title", arm.get("const"))) for arm in arms]
    else:
        values, titles = node.get("enum"), node.get("enumNames")
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise _bad(name, "must have choices")
        is_named = isinstance(titles, Sequence) and not isinstance(titles, str) and len(titles) == len(values)
        pairs = list(zip(values, titles if is_named and titles is not None else values, strict=True))
    texts = [text for pair in pairs for text in pair]
    if not 1 <= len(pairs) <= MAX_CHOICES or not all(
        isinstance(text, str) and len(text) <= MAX_WORDS for text in texts
    ):
        raise _bad(name, f"must have 1 to {MAX_CHOICES} choices, which are texts of at most {MAX_WORDS} characters")
    if len({value for value, _ in pairs}) < len(pairs):
        raise _bad(name, "must not have the same choice twice")
    return tuple(FormChoice(value, title or value) for value, title in pairs)


def _words(name: str, node: Mapping[str, Any], key: str) -> str:
    text = node.get(key)
    if text is None:
        return ""
    if not isinstance(text, str) or len(text) > MAX_WORDS:
        raise _bad(name, f"may have {MAX_WORDS} characters at most in its {key}")
    return text


def _limit(name: str, node: Mapping[str, Any], key: str) -> float | None:
    value = node.get(key)
    if value is not None and not _is_number(value):
        raise _bad(name, f"must have a number as {key}")
    return value


def _bad(path: str, what: str) -> InvalidValue:
    return InvalidValue(what, path=f"schema.{path}".rstrip("."), code="bad_question")
