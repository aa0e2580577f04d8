"""The fields of records and states that anyone who may look at a world sees, as data: an allowlist.

A name maps to None where the whole value is public, else to the fields of the value; of a list, to those of each item.
What is not named is withheld: a field that a later version adds, every event, state and effect of a world's own
definitions, and whatever a tool's redaction withholds, since results, arguments and words are blobs. Addresses of blobs
are public; which blobs may be read is another question (`visibility`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from demiurge.apps.demiurge import CALLS, CHAT, TITLES
from demiurge.world.effect_kinds import TOOL
from demiurge.world.effect_kinds.llm import LLM

__all__ = [
    "EVENTS",
    "MARK",
    "WITHHELD",
    "WITHHELD_TEXT",
    "Fields",
    "cell_fields",
    "public_part",
    "record_fields",
    "shown_text",
]

Fields: TypeAlias = "Mapping[str, Fields | None]"

MARK: Final = "$redacted"
"""The extra field that marks a redacted state."""

WITHHELD: Final[Mapping[str, bool]] = {"$withheld": True}
"""The placeholder of a withheld value."""

WITHHELD_TEXT: Final = "This text is withheld from the roles of this caller."
"""The text that a person sees in place of a withheld text."""


def _named(*names: str, **deeper: Fields) -> Fields:
    return {**dict.fromkeys(names), **deeper}


_RESULT: Final = ("ok", "error_code", "message", "result_ref", "view_ref", "replayed")
_OUTCOME: Final = _named("id", "name", "ok", "error_code", "message", "view_ref", "replayed")

_CELLS: Final[Mapping[str, Fields]] = {
    CHAT: _named(
        "last_request_id", "title", "title_ref", "created_at_ms", "first_message_at_ms", "archived", "deleted",
        "title_from", "model", "provider", "max_tokens", "own_max_tokens", "tools_ref",
        "own_tools_ref", "tool_choice", "left_out", "notes",
        messages=_named(
            "request_id", "role", "message_ref", "token_usage", "cost_cents", "finish_reason", "usage_ref",
            "findings_ref", "refused", "imported",
            tool=_OUTCOME,
        ),
        turn=_named(
            "request_id", "round", "status", "code", "catalog_ref", "tools_ref", "tools_before", "evidence_retries",
            calls=_named("id", "name", "call_ref", "result_ref", outcome=_OUTCOME),
        ),
    ),
    CALLS: _named("tool", "call_ref", outcome=_named(*_RESULT)),
    TITLES: _named("provider", "model", "status", "output_ref", "title_ref", "code"),
}  # fmt: skip
"""By module. The sentence beside the code of a turn that failed may quote what a provider or a plan was given."""

_MESSAGE: Final = ("chat_id", "request_id")
_TURN: Final = (*_MESSAGE, "round")
_SETTINGS: Final = ("model", "provider", "max_tokens", "tools_ref", "tool_choice")
_PLAN_FAILED: Final = _named("plan", "plan_id", "code")
_STEP_FAILED: Final = _named("code")

EVENTS: Final[Mapping[str, Fields]] = {
    "demiurge/ChatCreated@1": _named("chat_id", "title", "title_ref", "created_at_ms"),
    "demiurge/UserMessage@1": _named(
        *_MESSAGE, *_SETTINGS, "own_max_tokens", "catalog_ref", "text", "message_ref"
    ),
    "demiurge/ChatRenamed@1": _named("chat_id", "title", "title_ref"),
    "demiurge/ChatArchived@1": _named("chat_id", "archived"),
    "demiurge/ChatDeleted@1": _named("chat_id"),
    "demiurge/ChatTitled@1": _named("chat_id", "title_ref"),
    "demiurge/ChatImported@1": _named(
        "chat_id", "first_message_at_ms", messages=_named("request_id", "role", "message_ref")
    ),
    "demiurge/ChatTools@1": _named("chat_id", "tools_ref", "tool_choice"),
    "demiurge/TurnCancelled@1": _named(*_MESSAGE),
    "demiurge/ChatRequest@1": _named(*_TURN, *_SETTINGS, "temperature", "message_refs"),
    "demiurge/ChatResult@1": _named(
        *_TURN, "output_ref", "token_usage", "cost_cents", "tool_call_refs", "output_items_ref", "finish_reason",
        "usage_ref", "empty", "findings_ref",
    ),
    "demiurge/ChatFailed@1": _named(*_TURN, "code"),
    "demiurge/ToolCallRequested@1": _named(*_TURN, "tool_call_id", "tool", "call_ref"),
    "demiurge/ToolCallRefused@1": _named(*_TURN, "tool_call_id", "tool", "call_ref", "code"),
    "demiurge/ToolResult@1": _named(*_TURN, *_RESULT, "tool_call_id"),
    "demiurge/ToolFailed@1": _named(*_TURN, "tool_call_id", "code"),
    "demiurge/CallAsked@1": _named("call_id", "tool", "call_ref"),
    "demiurge/CallRequested@1": _named("call_id", "tool", "call_ref"),
    "demiurge/CallRefused@1": _named("call_id", "code"),
    "demiurge/CallDone@1": _named(*_RESULT, "call_id"),
    "demiurge/CallFailed@1": _named("call_id", "code"),
    "demiurge/TitleAsked@1": _named("chat_id", "message_ref", "provider", "model"),
    "demiurge/TitleRequested@1": _named(
        "chat_id", "message_refs", "provider", "model", "temperature", "max_tokens"
    ),
    "demiurge/TitleDone@1": _named("chat_id", "output_ref"),
    "demiurge/TitleFailed@1": _named("chat_id", "code"),
    "sys/PlanFailed@1": _PLAN_FAILED,
    "sys/StepFailed@1": _STEP_FAILED,
    "sys/DoubtSettled@1": _named("intent", "kind", "tool", "tool_call_id", "done", "by", "result_ref"),
}  # fmt: skip

_VARIANTS: Final[Mapping[str, str]] = {
    "demiurge/ChatEvent@1": "demiurge/{}@1",
    "demiurge/CallsEvent@1": "demiurge/Call{}@1",
    "demiurge/TitleEvent@1": "demiurge/Title{}@1",
}
"""The events of a module, by its event schema: the schema of what is under a tag, `{}` being the tag."""

_SYSTEM_TAGS: Final = ("PlanFailed", "StepFailed", "DoubtSettled")

_ORIGIN: Final = _named("kind", "name", "id", "parent", "ordinal")
_OBSERVED: Final = _named("by", "rule", "verdict")
_ADMITTED: Final = _named("by", "rule", "verdict", "code", "tainted", observed=_OBSERVED)
_APPROVED: Final = _named("by", "at_ms", "roles", "rule")

_PARAMS: Final[Mapping[str, Fields]] = {
    TOOL: _named("tool", "tool_call_id", "call_ref", "refused"),
    LLM: _named(
        "provider", "model", "temperature", "max_tokens", "message_refs", "tools_ref", "tool_choice", "check_evidence"
    ),
}
_PAYLOADS: Final[Mapping[str, Fields]] = {
    TOOL: _named(
        "tool_call_id", "ok", "error_code", "message", "message_ref", "view_ref", "record_ref", "events_ref",
        "session_ref", "usage", "replayed",
    ),
    LLM: _named(
        "output_ref", "token_usage", "cost_cents", "provider_id", "tool_call_refs", "output_items_ref",
        "finish_reason", "usage_ref", "empty", "findings_ref",
    ),
}  # fmt: skip
"""By effect kind, of an effect that succeeded. The `message` of a tool call is the one that its redaction allows."""

_BODIES: Final[Mapping[str, Fields]] = {
    "decision": _named("intent", "kind", "verdict", "by", "rule", "code", "tainted", origin=_ORIGIN),
    "approval": _named("intent", "verdict", "by", "call_ref", "answer_ref"),
    "approval_rule": _named("expires_ns", "count", "by", bound=_named("tool", "spec_hash", "actor", "rule_digest")),
    "approval_rule_ended": _named("id", "by"),
    "capability_request": _named("parent", "ordinal", "kind"),
    "step": _named("digest", error=_STEP_FAILED),
    "plan_ended": _named("id", "plan", "status", "code"),
    "manifest": _named("ref"),
    "settled": _named("run", "used"),
    "fork": _named("world", "from", "position"),
    "erased": _named("ref", "of", "actor"),
    "loss": _named("actor"),
    "doubt_decided": _named("id", "done", "by", "result_ref"),
    "doubt_settled": _named("id"),
}


def cell_fields(module: str) -> Fields:
    """The public fields of a module's state."""
    return _CELLS.get(module, {})


def record_fields(kind: str, body: Mapping[str, Any], effect: str | None) -> Fields:
    """The public fields of a record's body. `effect`: the effect kind of an intent or a receipt, None if unknown."""
    if kind == "event":
        return _named("schema", value=_event_fields(body.get("schema"), body.get("value")))
    if kind == "intent":
        asked = _named(
            "tool",
            "tool_call_id",
            "spec_hash",
            "args_digest",
            "rule_digest",
            "actor",
            "expires_ns",
            "approvers",
            "tainted",
        )
        return _named(
            "id", "kind", "grant", "left",
            origin=_ORIGIN, admitted=_ADMITTED, approval=asked, approved=_APPROVED,
            params=_PARAMS.get(effect or "", {}), edited_from=_named("intent", "call_ref"),
            leg=_named("of", "after", "number", "tied"),
        )  # fmt: skip
    if kind == "approval" and body.get("verdict") == "reject":
        return _named(*_BODIES["approval"], "reason")  # words to the model, which its receipt repeats
    if kind == "receipt":
        is_ok = body.get("status") == "ok"
        payload = _PAYLOADS.get(effect or "", {}) if is_ok else _STEP_FAILED
        return _named(
            "intent",
            "status",
            "untrusted",
            payload=payload,
            asks=_named("spec_hash", "args_digest", "tied", "expires_ns", "usage"),
        )
    return _BODIES.get(kind, {})


def _event_fields(schema: object, value: object) -> Fields:
    if schema in _VARIANTS and isinstance(value, Mapping):
        tag = str(value.get("$tag"))
        named = f"sys/{tag}@1" if tag in _SYSTEM_TAGS else _VARIANTS[str(schema)].format(tag)
        return {"$tag": None, "$value": EVENTS.get(named, {})}
    return EVENTS.get(str(schema), {})


def public_part(value: Any, fields: Fields | None) -> Any:
    """Returns the public part of a value, with `WITHHELD` in the place of the rest. A number in the place of a list is
    how many items there are."""
    if fields is None or value is None:
        return value
    if isinstance(value, Mapping) and fields:
        return {
            str(name): public_part(part, fields[name]) if name in fields else dict(WITHHELD)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple) and fields:
        return [public_part(part, fields) for part in value]
    return value if type(value) is int and fields else dict(WITHHELD)


def shown_text(value: Any) -> Any:
    """Returns a text of a record or a state, or the sentence that stands for it if it is withheld."""
    return WITHHELD_TEXT if value == WITHHELD else value
