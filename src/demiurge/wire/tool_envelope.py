"""The JSON tool protocol: a model without native tool calling asks for a tool with one JSON object as its whole reply.

    {"tool": "<id>", "args": {...}, "nonce": "<32 hex digits>"}                       a call
    {"action": "tool", "tool": "<id>", "args": {...}, "nonce": "..."}                 a call, after a tool's result
    {"action": "final", "nonce": "..."}                                               no more calls, after a result

Invariant: a reply that is not exactly one sound envelope is never a call. Nothing is repaired, and no JSON is taken out
of prose. The nonce is new for each request and is shown to the model at its end, so an envelope that a file, a tool's
result or an old transcript quotes is refused.

A reader returns the call, None for a reply that is no envelope (plain text), or a `Rejection`. The checks come in this
order, and the first that fails names the rejection: one JSON object, `tool_call_multiple`, JSON and the types of the
fields (`tool_call_invalid_format`), unknown fields, `tool_call_unknown_tool`, `tool_call_nonce_invalid`,
`tool_call_invalid_args`. Reading takes time in proportion to the length of the reply, and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire.envelope_args import args_problem, plain_args, shown

__all__ = [
    "REJECTION_CODES",
    "EnvelopeCall",
    "EnvelopeTools",
    "FinalEnvelope",
    "Rejection",
    "RejectionCode",
    "begins_envelope",
    "read_call",
    "read_decision",
]

RejectionCode: TypeAlias = Literal[
    "tool_call_invalid_format",
    "tool_call_multiple",
    "tool_call_unknown_tool",
    "tool_call_nonce_invalid",
    "tool_call_invalid_args",
]

REJECTION_CODES: Final[tuple[RejectionCode, ...]] = (
    "tool_call_invalid_format",
    "tool_call_multiple",
    "tool_call_unknown_tool",
    "tool_call_nonce_invalid",
    "tool_call_invalid_args",
)


@dataclass(frozen=True, slots=True)
class EnvelopeCall:
    """A sound call. `tool` is the id of a known tool, `args` fit its schema and have the names of the schema."""

    tool: str
    args: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class FinalEnvelope:
    """The model has no more calls and is ready to answer."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A reply that looks like an envelope and is not a sound one. `detail` says what is wrong, such as
    `missing-required:path`; it is printable and on one line. `tool`: the known tool that it names, if any."""

    code: RejectionCode
    detail: str = ""
    tool: str | None = None


def _no_alias(_: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class EnvelopeTools:
    """The tools that an envelope may name. `alias` returns the id for another name of a tool, or None; it is asked
    with the name in lower case and `-` as `_`. `arg_aliases`: for a tool id, the other names of its arguments."""

    specs: Mapping[str, ToolSpec] = field(hash=False)
    alias: Callable[[str], str | None] = _no_alias
    arg_aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls,
        specs: Iterable[ToolSpec],
        alias: Callable[[str], str | None] = _no_alias,
        arg_aliases: Mapping[str, Mapping[str, str]] | None = None,
    ) -> EnvelopeTools:
        return cls({spec.name: spec for spec in specs}, alias, arg_aliases or {})

    def known(self, name: str) -> str | None:
        """Returns the id of the tool that `name` stands for: as it is, in lower case with `-` as `_`, or an alias."""
        normal = name.strip(_SPACE).lower().replace("-", "_")
        return next((i for i in (name, normal, self.alias(normal)) if i is not None and i in self.specs), None)


def read_call(text: str | None, tools: EnvelopeTools, nonce: str) -> EnvelopeCall | Rejection | None:
    """Returns the call that a reply is, a `Rejection`, or None if the reply is plain text. A decision is rejected."""
    found = _one_object(text)
    return _call(found, tools, nonce) if isinstance(found, dict) else found


def read_decision(
    text: str | None, tools: EnvelopeTools, nonce: str
) -> EnvelopeCall | FinalEnvelope | Rejection | None:
    """Returns what a reply after a tool's result is: a decision or a call, a `Rejection`, or None for plain text."""
    found = _one_object(text)
    if not isinstance(found, dict) or "action" not in found:
        return _call(found, tools, nonce) if isinstance(found, dict) else found
    action = found["action"]
    if action == "tool":
        return _call({name: value for name, value in found.items() if name != "action"}, tools, nonce)
    if action != "final":
        return _malformed(f"unknown-action:{shown(action)}" if isinstance(action, str) else "action-not-text")
    return _unknown_field(found, ("action", "nonce")) or _nonce_problem(found, nonce) or FinalEnvelope()


def begins_envelope(start: str) -> bool | None:
    """Returns whether a reply that begins with `start` begins like an envelope; None if more of it is needed to tell.
    A reply that does not begin like one is plain text, so a screen may show it while it grows."""
    text = start.lstrip(_SPACE)
    if text.startswith("`"):
        first, newline, text = text.partition("\n")
        if not newline:
            return None if _FENCE_START.fullmatch(first) is not None else False
        if _FENCE.fullmatch(first.rstrip("\r")) is None:
            return False
    text = text.lstrip(_EDGE)
    return text.startswith("{") if text else None


_SPACE: Final = " \t\r\n"
_INVISIBLE: Final = "\ufeff\u200b\u200c\u200d\u2060"
_EDGE: Final = _SPACE + _INVISIBLE
_FENCE = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*")
_FENCE_START = re.compile(r"`{1,2}|```[A-Za-z0-9_+-]*[ \t]*\r?")
_FIELDS: Final = ("tool", "args", "nonce")


def _one_object(text: str | None) -> dict[str, Any] | Rejection | None:
    """Returns the JSON object that the whole reply consists of, a rejection, or None for plain text."""
    body = _without_fence((text or "").strip(_SPACE)).strip(_EDGE)
    if not body.startswith("{"):
        return None
    if not body.endswith("}"):
        return _malformed("unterminated-json")
    try:
        _, end = _SCANNER.raw_decode(body)
    except _RepeatedKey as error:
        return _malformed(f"repeated-key:{shown(error.key)}")
    except (ValueError, RecursionError):
        return _malformed("invalid-json")
    if end < len(body):
        return Rejection("tool_call_multiple") if "{" in body[end:] else _malformed("trailing-text")
    try:
        return canonical_json.parse_object(body)
    except InvalidValue:
        return _malformed("invalid-json")


def _without_fence(text: str) -> str:
    """Returns the lines between the two lines of a code fence around the whole text; `text` if there is none."""
    first, _, rest = text.partition("\n")
    inner, newline, last = rest.rpartition("\n")
    is_fenced = newline and last.rstrip("\r") == "```" and _FENCE.fullmatch(first.rstrip("\r")) is not None
    return inner if is_fenced else text


def _call(found: dict[str, Any], tools: EnvelopeTools, nonce: str) -> EnvelopeCall | Rejection:
    problem = next((f"missing-field:{name}" for name in ("tool", "args") if name not in found), None)
    if problem is None and not isinstance(found["tool"], str):
        problem = "tool-not-text"
    if problem is None and not isinstance(found["args"], dict):
        problem = "args-not-object"
    if problem is not None:
        return _malformed(problem)
    extra = _unknown_field(found, _FIELDS)
    if extra is not None:
        return extra
    name: str = found["tool"]
    if not name.strip():
        return _malformed("blank-tool")
    tool = tools.known(name)
    if tool is None:
        return Rejection("tool_call_unknown_tool", f"unknown-tool:{shown(name)}")
    wrong = _nonce_problem(found, nonce, tool)
    if wrong is not None:
        return wrong
    schema = tools.specs[tool].input_schema
    args, problem = plain_args(schema, found["args"], tools.arg_aliases.get(tool))
    problem = problem or args_problem(schema, args)
    return EnvelopeCall(tool, args) if problem is None else Rejection("tool_call_invalid_args", problem, tool)


def _unknown_field(found: Mapping[str, Any], known: Iterable[str]) -> Rejection | None:
    extra = next((name for name in found if name not in known), None)
    return None if extra is None else _malformed(f"unknown-field:{shown(extra)}")


def _nonce_problem(found: Mapping[str, Any], nonce: str, tool: str | None = None) -> Rejection | None:
    given = found.get("nonce")
    if nonce and isinstance(given, str) and given.strip(_SPACE) == nonce:
        return None
    return Rejection("tool_call_nonce_invalid", "missing" if given is None else "another nonce", tool)


def _malformed(detail: str) -> Rejection:
    return Rejection("tool_call_invalid_format", detail)


class _RepeatedKey(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _RepeatedKey(key)
        seen.add(key)


# Finds the end of the first object. Numbers stay text: the strict parser reads the object again.
_SCANNER = json.JSONDecoder(object_pairs_hook=_distinct, parse_int=str, parse_float=str)
