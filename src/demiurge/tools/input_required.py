"""Calls of a tool that ask a person half-way: the questions, the answers, and how the handler is called again.

The handler returns InputRequired in place of a ToolResult. That ends the first leg of its call. A person answers each
question, days later if need be, and the handler is called again with the same parameters: `context.resumed` has the
answers and the state that the handler gave. The call is one call for the model, for policies and for budgets.

    def book(params: Trip, *, context: ToolContext) -> ToolResult[Booking] | InputRequired:
        if context.resumed is None:
            return InputRequired((Question("seat", "Which seat?"),), state=b"offer 17")
        answer = context.resumed.answers["seat"]
        ...

Act after the answer, not before it: a leg that asks takes back what it changed in the session and in the resources of
its runner, but nothing can take back what it did outside.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, get_args

from pydantic_core import Url

from demiurge.errors import InvalidValue
from demiurge.tools.input_form import FormField, checked_content, read_form
from demiurge.values import canonical_json

__all__ = ["MAX_LEGS", "Action", "Answer", "Answers", "InputRequired", "Question", "Resumed", "ask_later"]

MAX_LEGS = 10
"""How many times the handler may be called for one call. Each leg but the last ends with questions."""

_PORTS = {"http": 80, "https": 443}

_REQUESTS: Mapping[Any, Literal["sampling", "roots"]] = {"sampling/createMessage": "sampling", "roots/list": "roots"}
"""The kind of a request by its method."""

_REPLIES: Mapping[str, Mapping[str, type[Any]]] = {
    "sampling": {"role": str, "content": dict, "model": str},
    "roots": {"roots": list},
}
"""The fields that the answer to a request has."""

MAX_QUESTIONS = 10
MAX_KEY = 128
MAX_MESSAGE = 4000
MAX_URL = 2000
MAX_STATE_BYTES = 262_144
MAX_REQUEST_BYTES = 262_144
MAX_REPLY_BYTES = 4 << 20
MAX_TEXT = 8000
"""How many characters an answer in plain text may have."""

Action: TypeAlias = Literal["accept", "decline", "cancel"]
"""The three things that a person may do with a question: answer it, refuse to answer, or leave it."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a person. `key` tells the questions of a call apart: 1 to 128 characters. `message`: 1 to 4000
    characters, shown to people as the words of the tool, or of its server, with hidden characters visible.

    `schema` makes the question a form: a JSON Schema of type object whose properties are texts, numbers, booleans, one
    of several choices, or several of them (`tools.input_form`). `url` makes it an address that the person opens to
    answer there: http or https, without a user name, up to 2000 characters. With neither, the answer is plain text.

    `request` makes it a request of an MCP server that no person answers but the program that asked for the call: the
    request of the protocol, `sampling/createMessage` or `roots/list`, up to 256 KiB. Its answer is the protocol's.
    Raises InvalidValue (`bad_question`)."""

    key: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None
    request: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_text(self.key, MAX_KEY, "key")
        _check_text(self.message, MAX_MESSAGE, "message")
        if sum(each is not None for each in (self.schema, self.url, self.request)) > 1:
            raise InvalidValue("a question has a schema, a url or a request", path="url", code="bad_question")
        if self.request is not None:
            object.__setattr__(self, "request", _copied(self.request))
            method, size = self.request.get("method"), len(json.dumps(self.request))
            if not isinstance(method, str) or method not in _REQUESTS or size > MAX_REQUEST_BYTES:
                raise InvalidValue("must be a request of the protocol", path="request", code="bad_question")
        if self.url is not None:
            _check_url(self.url)
        if self.schema is not None:
            object.__setattr__(self, "schema", _copied(self.schema))
            read_form(self.schema)

    @property
    def kind(self) -> Literal["form", "url", "text", "sampling", "roots"]:
        """How the question is answered."""
        if self.request is not None:
            return _REQUESTS[self.request["method"]]
        return "form" if self.schema is not None else "url" if self.url is not None else "text"

    @property
    def fields(self) -> tuple[FormField, ...]:
        """The fields of the form, in the order of the schema; none for a url or for plain text."""
        return read_form(self.schema) if self.schema is not None else ()

    @property
    def host(self) -> str:
        """The host that the url leads to, with its port, as the network spells it; "" without a url."""
        if self.url is None:
            return ""
        parts = Url(self.url)
        is_usual = parts.port == _PORTS[parts.scheme]
        return parts.host or "" if is_usual else f"{parts.host}:{parts.port}"

    def accepted(self, content: Mapping[str, Any] | None) -> Answer:
        """Returns the answer `accept` with a checked content: the fields of the form, `{"text": ...}` for plain text,
        nothing for a url. A field that is left out has its default. Raises InvalidValue (`bad_answer`); `details` has
        the `fields` at fault, each with a sentence."""
        if self.schema is not None:
            return Answer("accept", checked_content(self.fields, content if content is not None else {}))
        if self.request is not None:
            return Answer("accept", _checked_reply(self.kind, dict(content or {})))
        given = dict(content or {})
        if self.url is not None:
            if given:
                raise InvalidValue("This question is answered at its address, not here.", code="bad_answer")
            return Answer("accept")
        text = given.get("text")
        if set(given) != {"text"} or not isinstance(text, str) or not text.strip():
            raise InvalidValue('The answer to this question is {"text": "..."}, and not empty.', code="bad_answer")
        if len(text) > MAX_TEXT:
            raise InvalidValue(f"An answer has at most {MAX_TEXT} characters.", code="bad_answer")
        return Answer("accept", given)

    def to_json(self) -> dict[str, Any]:
        """Returns the question as JSON; schema, url and request only if they are there."""
        named = (("schema", self.schema), ("url", self.url), ("request", self.request))
        more = {name: value for name, value in named if value is not None}
        return {"key": self.key, "message": self.message, **more}

    @classmethod
    def of_json(cls, node: Mapping[str, Any]) -> Question:
        """Reads what `to_json` wrote. Raises InvalidValue (`bad_question`)."""
        return cls(node["key"], node["message"], node.get("schema"), node.get("url"), node.get("request"))


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The value that a handler returns in place of a result when it needs answers first. `questions`: 1 to 10, with
    different keys. `state`: up to 256 KiB, given back unchanged in `context.resumed`; it is recorded, so it holds no
    secret.

    `server`: the server whose words the questions are, "" for the tool's own. `expires_s`: how many seconds the
    questions wait; None: until they are answered. `tied_to_process`: the state is good for this process alone, such as
    an open connection; the wait then ends with the process. A wait that ends so goes on without answers
    (`Resumed.ended`). `over`: done once a tied state is good no more, because the connection is gone: a world then ends
    the wait. A world cancels it if a person ended the call instead. Raises InvalidValue (`bad_question`)."""

    questions: tuple[Question, ...]
    state: bytes = b""
    server: str = ""
    expires_s: float | None = None
    tied_to_process: bool = False
    over: asyncio.Future[Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", tuple(self.questions))
        keys = [question.key for question in self.questions]
        if not 1 <= len(keys) <= MAX_QUESTIONS or len(set(keys)) < len(keys):
            what = f"ask 1 to {MAX_QUESTIONS} questions, each with a key of its own"
            raise InvalidValue(what, path="questions", code="bad_question")
        if not isinstance(self.state, bytes) or len(self.state) > MAX_STATE_BYTES:
            raise InvalidValue(f"must be at most {MAX_STATE_BYTES} bytes", path="state", code="bad_question")
        if self.expires_s is not None and not 0 < self.expires_s <= 366 * 24 * 3600:
            raise InvalidValue("must be more than 0 seconds and at most a year", path="expires_s", code="bad_question")

    def to_json(self) -> dict[str, Any]:
        """Returns questions and server as JSON, without the state."""
        return {"questions": [question.to_json() for question in self.questions], "server": self.server}


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to one question. `content` of an accepted form: the value of each field; of plain text:
    `{"text": ...}`; else None."""

    action: Action
    content: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise InvalidValue("must be accept, decline or cancel", path="action", code="bad_answer")
        if self.content is not None and self.action != "accept":
            raise InvalidValue("only an accepted question has a content", path="content", code="bad_answer")

    @property
    def text(self) -> str:
        """The answer in plain text; "" for any other."""
        return str((self.content or {}).get("text", ""))

    def to_json(self) -> dict[str, Any]:
        """Returns `{"action"}`, with `content` if there is one."""
        return {"action": self.action, **({"content": dict(self.content)} if self.content is not None else {})}

    @classmethod
    def of_json(cls, node: Mapping[str, Any]) -> Answer:
        """Reads what `to_json` wrote. Raises InvalidValue (`bad_answer`)."""
        return cls(node["action"], node.get("content"))


@dataclass(frozen=True, slots=True)
class Resumed:
    """The reason why a handler is called again. `state`: what it gave. `answers`: by the keys of its questions.
    `ended`: nobody answered, because the wait was over before; then `answers` is empty, and the handler should end the
    call. `leg`: 2 for the first call after a question."""

    state: bytes
    answers: Mapping[str, Answer] = field(default_factory=lambda: MappingProxyType({}))
    ended: bool = False
    leg: int = 2


class Answers(Protocol):
    """Asks a person, for a runner without a world: a function, plain or async, among the resources of a runner or of a
    call. Returns the answers by the keys of the questions, None if the wait ended without any. A question that is left
    out is cancelled."""

    def __call__(
        self, tool_id: str, asked: InputRequired, /
    ) -> Mapping[str, Answer] | Awaitable[Mapping[str, Answer] | None] | None: ...


def ask_later(tool_id: str, asked: InputRequired, /) -> None:
    """The Answers of a program that asks by itself and then runs the call again with `resumed`, as a world does: the
    leg ends in silence, without an event, an entry in a session or a count."""


def _checked_reply(kind: str, reply: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to a request, in the protocol's form. Raises InvalidValue (`bad_answer`)."""
    wanted = _REPLIES[kind]
    if any(not isinstance(reply.get(name), type_) for name, type_ in wanted.items()):
        what = f"The answer to a request for {kind} is an object with {', '.join(wanted)}, as the protocol has it."
        raise InvalidValue(what, code="bad_answer")
    try:
        size = len(canonical_json.encode(reply))
    except (InvalidValue, TypeError, ValueError) as error:
        raise InvalidValue("The answer must be JSON.", code="bad_answer") from error
    if size > MAX_REPLY_BYTES:
        raise InvalidValue(f"The answer has at most {MAX_REPLY_BYTES >> 20} MiB.", code="bad_answer")
    return reply


def _check_text(text: object, most: int, path: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > most:
        raise InvalidValue(f"must be text of 1 to {most} characters", path=path, code="bad_question")


def _check_url(url: object) -> None:
    problem = InvalidValue("must be an http or https address without a user name", path="url", code="bad_question")
    if not isinstance(url, str) or len(url) > MAX_URL or not url.isprintable() or " " in url or "\\" in url:
        raise problem
    try:
        parts = Url(url)
    except ValueError:
        raise problem from None
    if parts.scheme not in _PORTS or not parts.host or parts.username or parts.password:
        raise problem


def _copied(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a schema, its fields in their order."""
    try:
        canonical_json.encode(dict(schema))
        copied: dict[str, Any] = json.loads(json.dumps(schema))
    except (InvalidValue, TypeError, ValueError) as error:
        raise InvalidValue("must be a JSON Schema", path="schema", code="bad_question") from error
    return copied
