"""A toolset as a blob: the target of a `tools_ref` (`{provider, tools, tool_choice?, deferred?}`, entries in a
provider's own schema).

A toolset narrows: of the tools that the tool policy lets a model call, those that it names are offered and may be
called. Reading a toolset never makes a tool callable; `llm.generate` compares each entry with the world's catalog.
`deferred` names tools that are offered and not described: a model finds them with `core__find_tools`
(docs/tools-on-demand.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.ids import canonical_id, is_tool_id
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.items import NamedTool, ToolChoice
from demiurge.wire.strict_calls import require_strict, strict_tools, without_strict

__all__ = [
    "Toolset",
    "choice_tag",
    "chosen_tag",
    "encode_toolset",
    "narrowed",
    "read_toolset",
    "with_loaded",
    "wording",
]

_WORDS: Mapping[str, ToolChoice] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


@dataclass(frozen=True, slots=True)
class Toolset:
    """A toolset that was read. `entries` are the tools by their canonical ids, each as the blob spells it except for
    its name and `strict`; `choice` is the blob's tool choice, or None; `strict` names the tools whose calls the
    provider has to keep to the schema. `provider` is told to readers: an entry's own form says how it is worded."""

    provider: str
    entries: tuple[tuple[str, Mapping[str, Any]], ...]
    choice: ToolChoice | None
    strict: frozenset[str] = frozenset()
    deferred: tuple[str, ...] = ()
    """The tools that are offered and not described."""

    @property
    def names(self) -> frozenset[str]:
        """The tools that a model may call under this toolset, if the tool policy allows them."""
        return frozenset([*(name for name, _ in self.entries), *self.deferred])


def encode_toolset(
    provider: str,
    specs: Sequence[ToolSpec],
    tool_choice: ToolChoice | None = None,
    *,
    strict: bool = False,
    deferred: Sequence[str] = (),
) -> bytes:
    """Returns the blob of these tools for a provider. Raises InvalidValue for an unknown tool choice, and with `strict`
    (`bad_toolset`) for a tool or a provider whose calls can't be strict."""
    wire = _wire_of(provider)
    encoded: dict[str, Any] = {"tools": [], **wire.encode_tools(specs, tool_choice)}
    if deferred:
        encoded["deferred"] = list(deferred)
    if strict:
        if wire is anthropic:
            raise _bad(f"strict calls are for the formats of OpenAI, not for {provider}: leave `strict` out", "strict")
        for spec in specs:
            require_strict(spec)
        encoded = strict_tools(encoded, [spec.name for spec in specs])
    return canonical_json.encode({"provider": provider, **encoded})


def with_loaded(data: bytes, names: Collection[str], specs: Mapping[str, ToolSpec]) -> bytes:
    """Returns the toolset with those of its deferred tools that are in `names` among the tools that a request
    describes, after the others. `specs`: the tools of the world by name; one that is not there is left out."""
    blob = canonical_json.parse_object(data)
    deferred = read_toolset(data).deferred
    loaded = [specs[name] for name in deferred if name in names and name in specs]
    added = _wire_of(str(blob.get("provider", ""))).encode_tools(loaded)["tools"] if loaded else []
    left = [name for name in deferred if name not in names]
    rest = {name: value for name, value in blob.items() if name != "deferred"}
    found = {**rest, "tools": [*blob.get("tools", []), *added], **({"deferred": left} if left else {})}
    return canonical_json.encode(found)


def wording(spec: ToolSpec, like: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tool in the provider's format that the entry `like` has, without `strict`."""
    wire = openai_chat if "function" in like else anthropic if "input_schema" in like else openai_responses
    [entry] = wire.encode_tools([spec])["tools"]
    return without_strict(entry)[0]


def read_toolset(data: bytes) -> Toolset:
    """Reads a toolset. Raises InvalidValue: `invalid_json`, or `bad_toolset` with what is wrong."""
    blob = canonical_json.parse_object(data)
    entries = blob.get("tools", [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise _bad("must be a list of objects", "tools")
    named = [_named(entry) for entry in entries]
    names = [name for name, _ in named]
    twice = next((name for at, name in enumerate(names) if name and name in names[:at]), None)
    if twice is not None:
        raise _bad(f"the tool {twice} is in it twice", "tools")
    strict = frozenset(name for (name, _), entry in zip(named, entries, strict=True) if _is_strict(name, entry))
    deferred = blob.get("deferred", [])
    if not isinstance(deferred, list) or not all(map(is_tool_id, deferred)):
        raise _bad("must be a list of tool ids", "deferred")
    if len({*names, *deferred}) < len(names) + len(deferred):
        raise _bad("a deferred tool is in the toolset twice", "deferred")
    choice = _choice(blob.get("tool_choice"))
    return Toolset(str(blob.get("provider", "")), tuple(named), choice, strict, tuple(deferred))


def narrowed(data: bytes) -> frozenset[str]:
    """Returns the tools that a model may call under this toolset, if the tool policy allows them; none if the blob is
    not a toolset."""
    try:
        return read_toolset(data).names
    except InvalidValue:
        return frozenset()


def chosen_tag(data: bytes) -> dict[str, Any] | None:
    """Returns the blob's own choice as `sys/LlmToolChoice@1`; None if it makes none or is not a toolset."""
    try:
        choice = read_toolset(data).choice
    except InvalidValue:
        return None
    return choice_tag(choice) if choice is not None else None


def choice_tag(choice: ToolChoice) -> dict[str, Any]:
    """Returns a tool choice as `sys/LlmToolChoice@1`. Raises InvalidValue (`bad_tool_choice`)."""
    if isinstance(choice, NamedTool):
        return {"$tag": "Tool", "$value": {"name": choice.name}}
    if choice not in ("auto", "none", "required"):
        raise InvalidValue("must be auto, none, required, or a NamedTool", path="tool_choice", code="bad_tool_choice")
    return {"$tag": choice.capitalize(), "$value": None}


def _wire_of(provider: str) -> ModuleType:
    """Returns the wire format of a provider's toolsets."""
    wire = openai_responses if provider.startswith("openai-responses") else openai_chat
    return anthropic if provider.startswith("anthropic") else wire


def _is_strict(name: str, entry: Mapping[str, Any]) -> bool:
    """Returns whether an entry asks for strict calls. Raises InvalidValue (`bad_toolset`)."""
    _, given = without_strict(entry)
    if given is not None and type(given) is not bool:
        raise _bad(f"`strict` of {name or 'an entry'} must be true or false", "tools")
    return given is True


def _named(entry: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the canonical id of the tool that an entry describes ("" if it names none), and the entry with that id in
    it, without `strict`."""
    entry, _ = without_strict(entry)
    name, function = entry.get("name"), entry.get("function")
    if isinstance(name, str):
        known = canonical_id(name)
        return known, {**entry, "name": known}
    if isinstance(function, Mapping) and isinstance(function.get("name"), str):
        known = canonical_id(function["name"])
        return known, {**entry, "function": {**function, "name": known}}
    return "", entry


def _choice(value: Any) -> ToolChoice | None:
    """Reads a choice as any of the formats spells it: a word, `{"type": word}`, or an object that names a tool."""
    if value is None:
        return None
    kind = value.get("type") if isinstance(value, Mapping) else value
    if isinstance(kind, str) and kind in _WORDS:
        return _WORDS[kind]
    name = _named(value)[0] if isinstance(value, Mapping) and kind in ("function", "tool") else ""
    if not name:
        raise _bad("must be auto, none, required, or an object that names a tool", "tool_choice")
    return NamedTool(name)


def _bad(message: str, path: str) -> InvalidValue:
    return InvalidValue(message, path=path, code="bad_toolset")
