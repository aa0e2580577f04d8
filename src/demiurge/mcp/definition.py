"""The definition of a tool, a prompt, a resource or a resource template, as an MCP server lists it, and its pin: the
digest that a person trusts.

A pin covers every text and rule of a definition that a model, a policy, a check or a client of the gateway reads: name,
title, description, both schemas and the annotations, or the arguments or the address; and icons, `execution` and
`_meta`. A definition with another pin is another tool, whatever its name is. The size of a resource is left out of it,
and is shown to nobody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.hidden_text import spell_hidden, without_hidden
from demiurge.tools.effect import ToolEffect
from demiurge.values import canonical_json
from demiurge.values.frozen_json import frozen, thawed
from demiurge.values.refs import ref_of

__all__ = [
    "EXTRA",
    "KINDS",
    "MAX_ARGUMENTS",
    "MAX_DEFINITION_BYTES",
    "MAX_TOOL_NAME",
    "MAX_URI",
    "Change",
    "DefinitionChange",
    "Kind",
    "ToolDefinition",
    "difference",
    "effect_by_annotations",
    "effect_by_hints",
    "is_idempotent",
    "visible",
]

Kind: TypeAlias = Literal["tool", "prompt", "resource", "template"]

KINDS: Final[tuple[Kind, ...]] = ("tool", "prompt", "resource", "template")
"""The kinds of what a server lists, in the order in which they are shown."""

EXTRA: Final = ("icons", "execution", "_meta")
"""The fields of a definition that only clients of the gateway read."""

MAX_TOOL_NAME = 128
"""The maximum length of the name of a tool or a prompt on its server, in characters."""

MAX_URI = 2048
"""The maximum length of the address of a resource, and of its name, in characters."""

MAX_ARGUMENTS = 64
"""The most arguments of a prompt."""

MAX_DEFINITION_BYTES = 262_144
"""The maximum size of a definition, in bytes of its canonical JSON."""

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool, or what is called like one, as its server lists it. A field that the server left out is None.
    `annotations`: the server's hints, in the protocol's field names (`readOnlyHint`, ...). `pin`: `sha256:<hex>` of the
    canonical JSON of all fields, which has `size` bytes.

    `kind`: a tool, a prompt with `arguments` (as the protocol writes them), a resource at the address `uri`, or a
    template of addresses, which is in `uri` as well. The input schema of the three is made from these. `extra`: the
    fields EXTRA that the server gave, as the protocol writes them.

    Raises InvalidValue for a name that is empty or longer than MAX_TOOL_NAME (MAX_URI: of a resource), fields of
    another type, an address that is none, and a definition that is no JSON or larger than MAX_DEFINITION_BYTES."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] = field(default_factory=dict, hash=False)
    output_schema: dict[str, Any] | None = field(default=None, hash=False)
    annotations: dict[str, Any] | None = field(default=None, hash=False)
    kind: Kind = field(default="tool", kw_only=True)
    uri: str | None = field(default=None, kw_only=True)
    mime_type: str | None = field(default=None, kw_only=True)
    arguments: Sequence[Mapping[str, Any]] = field(default=(), kw_only=True, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    pin: str = field(init=False)
    size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidValue(f"is one of {', '.join(KINDS)}", path="kind")
        longest = MAX_TOOL_NAME if self.kind in ("tool", "prompt") else MAX_URI
        if not isinstance(self.name, str) or not 0 < len(self.name) <= longest:
            raise InvalidValue(f"must be text of 1 to {longest} characters", path="name")
        for name in ("title", "description", "mime_type"):
            if not isinstance(getattr(self, name), str | None):
                raise InvalidValue("must be text", path=name)
        if self.kind != "tool":
            self._check_others()
        for name in ("input_schema", "output_schema", "annotations"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) and (value is not None or name == "input_schema"):
                raise InvalidValue("must be an object", path=name)
            object.__setattr__(self, name, frozen(value))
        object.__setattr__(self, "extra", frozen({name: self.extra[name] for name in EXTRA if name in self.extra}))
        text = canonical_json.encode(self.to_json())
        if len(text) > MAX_DEFINITION_BYTES:
            raise InvalidValue(f"the definition has {len(text)} bytes, and {MAX_DEFINITION_BYTES} is the most")
        object.__setattr__(self, "pin", ref_of(text))
        object.__setattr__(self, "size", len(text))

    def _check_others(self) -> None:
        """Checks the fields of a prompt, a resource or a template, and makes its input schema."""
        object.__setattr__(self, "output_schema", None)
        if self.kind == "prompt":
            if without_hidden(self.name) != self.name:
                raise InvalidValue("a name may have no hidden characters", path="name")
            object.__setattr__(self, "arguments", tuple(map(_checked_argument, _checked_list(self.arguments))))
            object.__setattr__(self, "input_schema", _prompt_schema(self.arguments))
            return
        if not isinstance(self.uri, str) or len(self.uri) > MAX_URI or not _ADDRESS.fullmatch(self.uri):
            raise InvalidValue(f"must be an address of at most {MAX_URI} characters, such as file:///a", path="uri")
        if without_hidden(self.uri) != self.uri:
            raise InvalidValue("an address may have no hidden characters", path="uri")
        object.__setattr__(self, "input_schema", _ADDRESS_SCHEMA if self.kind == "template" else _NO_ARGUMENTS)

    @property
    def label(self) -> str:
        """The name by which people and commands mean it among all that its server lists: the name of a tool,
        `prompt:NAME`, `resource:URI` or `template:URI`."""
        return self.name if self.kind == "tool" else f"{self.kind}:{self.uri if self.uri is not None else self.name}"

    def to_json(self) -> dict[str, Any]:
        """Returns the definition in the protocol's own field names, without the fields that are None. `kind` is in it
        unless it is a tool."""
        node: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
        }
        if self.kind == "tool":
            node |= {"inputSchema": thawed(self.input_schema), "outputSchema": thawed(self.output_schema)}
        elif self.kind == "prompt":
            node |= {"kind": self.kind, "arguments": [dict(each) for each in self.arguments]}
        else:
            place = "uri" if self.kind == "resource" else "uriTemplate"
            node |= {"kind": self.kind, place: self.uri, "mimeType": self.mime_type}
        node |= {"annotations": thawed(self.annotations), **thawed(self.extra)}
        return {name: value for name, value in node.items() if value is not None}

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> ToolDefinition:
        """Returns the definition from the protocol's JSON; fields that no pin covers are left out. Raises
        InvalidValue."""
        if not isinstance(data, Mapping):
            raise InvalidValue("a tool's definition must be an object")
        kind = data.get("kind", "tool")
        return cls(
            data.get("name"),  # type: ignore[arg-type]  # checked above
            data.get("title"),
            data.get("description"),
            data.get("inputSchema") if kind == "tool" else {},  # type: ignore[arg-type]
            data.get("outputSchema"),
            data.get("annotations"),
            kind=kind,
            uri=data.get("uri" if kind == "resource" else "uriTemplate") if kind != "tool" else None,
            mime_type=data.get("mimeType") if kind != "tool" else None,
            arguments=data.get("arguments") or () if kind == "prompt" else (),
            extra={name: data[name] for name in EXTRA if data.get(name) is not None},
        )


_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_NO_ARGUMENTS: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}
_ADDRESS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "maxLength": MAX_URI, "description": "An address of the template."}},
    "required": ["uri"],
    "additionalProperties": False,
}


def _checked_list(arguments: object) -> Sequence[Any]:
    if not isinstance(arguments, Sequence) or isinstance(arguments, str) or len(arguments) > MAX_ARGUMENTS:
        raise InvalidValue(f"must be a list of at most {MAX_ARGUMENTS}", path="arguments")
    names = [each.get("name") for each in arguments if isinstance(each, Mapping)]
    if len({str(name) for name in names}) != len(arguments):
        raise InvalidValue("each needs a name of its own", path="arguments")
    return arguments


def _checked_argument(argument: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an argument of a prompt with the fields that a pin covers. Raises InvalidValue."""
    kept = {name: argument.get(name) for name in ("name", "title", "description", "required")}
    required = kept.pop("required")
    found = {name: value for name, value in kept.items() if value is not None}
    if any(not isinstance(value, str) for value in found.values()) or not isinstance(required, bool | None):
        raise InvalidValue(
            "its name, title and description are text, and 'required' is true or false", path="arguments"
        )
    if not 0 < len(found.get("name", "")) <= MAX_TOOL_NAME:
        raise InvalidValue(f"a name has 1 to {MAX_TOOL_NAME} characters", path="arguments")
    return {**found, "required": True} if required else found


def _prompt_schema(arguments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the schema of a prompt's arguments, which are texts."""
    texts = {
        each["name"]: {"type": "string", **{key: each[key] for key in ("title", "description") if key in each}}
        for each in arguments
    }
    required = [each["name"] for each in arguments if each.get("required")]
    schema = {**_NO_ARGUMENTS, "properties": texts}
    return {**schema, "required": required} if required else schema


def effect_by_hints(definition: ToolDefinition) -> ToolEffect | None:
    """Returns the effect level that the server's hints claim; None if it gives no hints. A hint is the word of the
    server: it never makes the level of a person's decision less strict. Getting a prompt and reading a resource are
    `read_only` by the protocol."""
    return ToolEffect.READ_ONLY if definition.kind != "tool" else effect_by_annotations(definition.annotations or {})


def effect_by_annotations(hints: Mapping[str, Any]) -> ToolEffect | None:
    """Returns the effect level that the annotations of a tool claim, as `effect_by_hints`."""
    if not any(isinstance(hints.get(name), bool) for name in _HINTS):
        return None
    if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True:
        return ToolEffect.READ_ONLY
    return ToolEffect.STATE_CHANGE if hints.get("openWorldHint") is False else ToolEffect.EXTERNAL_SIDE_EFFECT


def is_idempotent(definition: ToolDefinition) -> bool:
    """Returns whether the definition says that a second call with equal arguments changes nothing more."""
    return definition.kind != "tool" or (definition.annotations or {}).get("idempotentHint") is True


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """One difference of two definitions, for a person. `place`: a field or a path in it, such as
    `inputSchema/properties/q/description`. `before`, `after`: the two texts, or JSON if one of them is no text, with
    hidden characters spelled as `<U+202E>`; None if it is not there."""

    place: str
    before: str | None
    after: str | None


Change: TypeAlias = DefinitionChange


def difference(old: ToolDefinition | None, new: ToolDefinition | None) -> list[DefinitionChange]:
    """Returns what differs between two definitions, in the order of their fields. None stands for no definition."""
    before = {} if old is None else old.to_json()
    after = {} if new is None else new.to_json()
    return list(_changes("", before, after))


def _changes(place: str, before: Any, after: Any) -> Iterator[DefinitionChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            below = f"{place}/{visible(name)}" if place else visible(name)
            yield from _changes(below, before.get(name, _ABSENT), after.get(name, _ABSENT))
    elif (texts := (_json(before), _json(after)))[0] != texts[1]:
        if isinstance(before, str) and isinstance(after, str):
            texts = (before, after)
        yield DefinitionChange(place, *(None if text is None else visible(text) for text in texts))


def _json(value: Any) -> str | None:
    return None if value is _ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)


def visible(text: str) -> str:
    """Returns a server's text with each hidden character spelled as `<U+202E>`."""
    return spell_hidden(text, lambda character: f"<U+{ord(character):04X}>")
