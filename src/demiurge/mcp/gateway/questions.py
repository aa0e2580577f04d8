"""Requests to the user of an MCP client, for what a call waits for, and the user's answers.

Only a caller that may decide on the call is offered a decision, or a form to fill in; what another caller sends back
changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from demiurge.mcp.definition import visible
from demiurge.mcp.gateway.content import waits_text
from demiurge.mcp.gateway.port import AskedQuestion, Waiting
from demiurge.visible_text import visible_name

__all__ = ["DECISION", "client_requests", "given_answers", "given_decision", "read_responses", "request_kind"]

DECISION: Final = "decision"
"""The key of the question whether a call may run, and of the field with its answer."""

MAX_ARGUMENTS: Final = 2000
"""How many characters of a call's arguments a client's user is shown. A call with more is not approved there."""

_RESPONSE: Final[TypeAdapter[types.InputResponse]] = TypeAdapter(types.InputResponse)


def client_requests(
    waiting: Waiting, answered: Mapping[str, Any], *, opens_urls: bool = False, answers: Collection[str] = ()
) -> dict[str, types.InputRequest]:
    """Returns the requests by key, without those that were answered. `opens_urls`: the client can ask its user to open
    an address. `answers`: what the client answers itself, `sampling` and `roots`; nothing else of the kind is asked."""
    if not waiting.questions:
        return {DECISION: _form(_decision_text(waiting), _decision_fields(waiting))}
    return {
        question.key: _request(waiting, question, opens_urls=opens_urls)
        for question in waiting.questions
        if question.key not in answered and (question.request is None or request_kind(question) in answers)
    }


def request_kind(question: AskedQuestion) -> str | None:
    """Returns what of the client a question is about, `sampling` or `roots`; None for a question to a person."""
    return _KINDS[question.request["method"]] if question.request is not None else None


_KINDS: Final = {"sampling/createMessage": "sampling", "roots/list": "roots"}
_REPLIES: Final[Mapping[str | None, tuple[type[Any], ...]]] = {
    None: (types.ElicitResult,),
    "sampling": (types.CreateMessageResult,),
    "roots": (types.ListRootsResult,),
}
"""The form of the answer to each kind of question."""


def _decision_text(waiting: Waiting) -> str:
    text = waits_text(waiting)
    if waiting.arguments_json is None:
        return text
    arguments = visible(waiting.arguments_json)
    if len(arguments) <= MAX_ARGUMENTS:
        return f"{text}\nArguments: {arguments}"
    cut = "They are too long to be shown here, so the call can't be approved here: approve it as said above."
    return f"{text}\nThe arguments begin with: {arguments[:MAX_ARGUMENTS]}\n{cut}"


def _decisions(waiting: Waiting) -> list[str]:
    """Returns the decisions that the client's user may take: a call is approved only where all of it is shown."""
    is_whole = waiting.arguments_json is not None and len(visible(waiting.arguments_json)) <= MAX_ARGUMENTS
    return [*(["approve"] if is_whole else []), "reject", "wait"]


def _decision_fields(waiting: Waiting) -> dict[str, Any]:
    if not waiting.may_decide:
        return {}
    return {
        DECISION: {"type": "string", "title": "Decision", "enum": _decisions(waiting)},
        "reason": {"type": "string", "title": "Reason", "maxLength": 2000},
    }


def _request(waiting: Waiting, question: AskedQuestion, *, opens_urls: bool) -> types.InputRequest:
    if question.request is not None:
        if request_kind(question) == "roots":
            return types.ListRootsRequest()
        return types.CreateMessageRequest.model_validate(question.request)
    if not waiting.may_decide:
        return _form(waits_text(waiting), {})
    message = f"{visible_name(waiting.asker)} asks: {visible(question.message)}"
    if question.url is None:
        fields = question.fields
        if fields is None:
            return _form(message, {"text": {"type": "string", "title": "Answer"}}, ["text"])
        required = [field["name"] for field in fields if field["required"]]
        return _form(message, {field["name"]: _property(_shown(field)) for field in fields}, required)
    if opens_urls:
        asked = types.ElicitRequestURLParams(message=message, url=question.url, elicitation_id=question.key)
        return types.ElicitRequest(params=asked)
    return _form(f"{message}\nOpen {question.url}, and accept when it is done.", {})


def _shown(field: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a field whose words for a person have their hidden characters spelled out."""
    choices = [{**choice, "title": visible_name(choice["title"])} for choice in field["choices"]]
    return {
        **field,
        "title": visible_name(field["title"]),
        "description": visible(field["description"]),
        "choices": choices,
    }


def _form(message: str, properties: dict[str, Any], required: list[str] | None = None) -> types.InputRequest:
    schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


_TYPES: Final = {"text": "string", "choice": "string", "choices": "array"}
_LIMITS: Final = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


def _property(field: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a field of a form as the protocol writes it."""
    kind = _TYPES.get(field["kind"], field["kind"])
    least, most = _LIMITS.get(kind, ("minimum", "maximum"))
    choices: dict[str, Any] = {"enum": [choice["value"] for choice in field["choices"]]}
    if field.get("enum_names"):
        choices["enumNames"] = [choice["title"] for choice in field["choices"]]
    elif any(choice["title"] != choice["value"] for choice in field["choices"]):
        titled = [{"const": choice["value"], "title": choice["title"]} for choice in field["choices"]]
        choices = {"oneOf" if field["kind"] == "choice" else "anyOf": titled}
    more = {
        "description": field["description"] or None,
        "format": field["format"] or None,
        "default": field["default"],
        least: field["least"],
        most: field["most"],
        "items": {"type": "string", **choices} if field["kind"] == "choices" else None,
        **(choices if field["kind"] == "choice" else {}),
    }
    return {"type": kind, "title": field["title"], **{name: value for name, value in more.items() if value is not None}}


def read_responses(given: Mapping[str, Any]) -> dict[str, types.InputResponse]:
    """Returns those answers of a client that have a form of the protocol; the others are ignored."""
    found: dict[str, types.InputResponse] = {}
    for key, answer in given.items():
        with suppress(ValidationError):
            found[key] = _RESPONSE.validate_python(answer, by_name=False)
    return found


def given_decision(waiting: Waiting, responses: Mapping[str, Any]) -> tuple[bool, str] | None:
    """Returns whether a client's user approves a call, and the reason; None if the user did not decide."""
    given = responses.get(DECISION)
    if not isinstance(given, types.ElicitResult) or given.action != "accept":
        return None
    content = given.content or {}
    if content.get(DECISION) not in _decisions(waiting)[:-1]:
        return None
    return content[DECISION] == "approve", str(content.get("reason") or "")[:2000]


def given_answers(waiting: Waiting, responses: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the answers of a client's user to the questions that are asked, by key."""
    kinds = {question.key: request_kind(question) for question in waiting.questions}
    found: dict[str, dict[str, Any]] = {}
    for key, given in responses.items():
        if key not in kinds:
            continue
        if isinstance(given, types.ElicitResult) and (kinds[key] is None or given.action != "accept"):
            content = {"content": dict(given.content or {})} if given.action == "accept" else {}
            found[key] = {"action": given.action, **content}
        elif kinds[key] is not None and isinstance(given, _REPLIES[kinds[key]]):
            node = given.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "result_type"})
            found[key] = {"action": "accept", "content": node}
    return found
