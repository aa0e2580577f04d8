"""A chat as a whole: what was said, by which model, when, at which cost, with the bytes of its attachments.

An export holds what its reader sees in the chat. What was erased is not in it; what an answer cost is exact or unknown.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.answer_cost import costs_in_usages
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_markdown import as_markdown
from demiurge.bootstrap.chat_state import ChatCell, ChatMessage, ChatStanding, Failed
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.turn_outcome import messages_from
from demiurge.errors import DemiurgeError, NotFound
from demiurge.tools.parts import parts_of
from demiurge.values.money import add_micros, dollars_text
from demiurge.values.refs import parse_ref
from demiurge.world.effect_kinds.llm import LLM
from demiurge.world.unit import Unit

__all__ = ["FORMAT", "ChatExport", "ExportedFile", "export_chat"]

FORMAT: Final = "demiurge.chat/1"


class ExportedFile(NamedTuple):
    """The bytes of an attachment, or of a part of a result: its media type and its data."""

    mime: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ChatExport:
    """A chat as a whole. `standing` is how it stands; `messages` are those of `Chat.messages`, each with `at_ms`, the
    time at which it was recorded, in milliseconds since 1970 (None where no record says it). An answer of
    the model has besides `model`, `provider`, `prompt_tokens`, `completion_tokens`, `cost_usd` and `finish_reason`,
    None for what is not known.

    `failures` are `{request_id, code, message}` of turns that failed; `files` are the attachments and the parts of
    results by their addresses. The sums are over all answers; `cost_usd` is exact decimal text, None if the cost of an
    answer is not known."""

    chat_id: str
    standing: ChatStanding
    messages: Sequence[Mapping[str, Any]]
    failures: Sequence[Mapping[str, Any]]
    files: Mapping[str, ExportedFile]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: str | None

    def to_json(self) -> dict[str, Any]:
        """Returns the chat as JSON-ready data (docs/chats.md#the-format); the bytes of files as base64 text."""
        return {
            "format": FORMAT,
            "chat_id": self.chat_id,
            "title": self.standing.title,
            "name": self.standing.name,
            "archived": self.standing.archived,
            "created_at_ms": self.standing.created_at_ms,
            "first_message_at_ms": self.standing.first_message_at_ms,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": self.cost_usd,
            "messages": [dict(message) for message in self.messages],
            "failures": [dict(failure) for failure in self.failures],
            "files": {
                ref: {"mime": file.mime, "base64": base64.b64encode(file.data).decode()}
                for ref, file in self.files.items()
            },
        }

    def to_markdown(self) -> str:
        """Returns the chat as a page of Markdown for a person to read. Its files are in it as `data:` addresses."""
        return as_markdown(self.to_json())


class _Recorded(NamedTuple):
    """A message as its records date it. An answer has the model that gave it."""

    at_ms: int
    model: str | None = None
    provider: str | None = None


async def export_chat(
    cell: ChatCell,
    standing: ChatStanding,
    messages: Sequence[Mapping[str, Any]],
    failures: Mapping[int, Failed],
) -> ChatExport:
    """Returns a chat as a whole: `messages` are those of `Chat.messages`, `failures` those of `Chat.failures`. Raises
    Damaged, Unavailable."""
    backend, chat_id = cell.backend, cell.chat_id
    cells = (await messages_from(cell, 0) or [])[: len(messages)]  # a message may have come meanwhile
    recorded = await asyncio.to_thread(_recorded, backend, chat_id)
    answers = [each for each in cells if each.role == "assistant"]
    costs = await asyncio.to_thread(costs_in_usages, backend, [each.usage_ref for each in answers])
    known = [cost for cost in costs if cost is not None]
    priced = iter([dollars_text(cost) if cost is not None else None for cost in costs])
    usages = [each.token_usage for each in answers if each.token_usage]
    return ChatExport(
        chat_id,
        standing,
        [_message(each, message, recorded, priced) for each, message in zip(cells, messages, strict=True)],
        [{"request_id": request_id, **why._asdict()} for request_id, why in failures.items()],
        await asyncio.to_thread(lambda: dict(_files(backend, messages))),
        sum(usage["prompt"] for usage in usages),
        sum(usage["completion"] for usage in usages),
        dollars_text(add_micros(known)) if len(known) == len(answers) else None,
    )


def _message(
    cell: ChatMessage,
    message: Mapping[str, Any],
    recorded: Mapping[tuple[int, str], list[_Recorded]],
    priced: Iterator[str | None],
) -> dict[str, Any]:
    """Returns a message with what its records say of it."""
    said = recorded.get((cell.request_id if cell.role == "user" else 0, cell.message_ref), [])
    record = (said.pop(0) if len(said) > 1 else said[0]) if said else None
    found = {**message, "at_ms": record.at_ms if record is not None else None}
    if cell.role != "assistant":
        return found
    usage = cell.token_usage or {}
    return {
        **found,
        "model": record.model if record is not None else None,
        "provider": record.provider if record is not None else None,
        "prompt_tokens": usage.get("prompt"),
        "completion_tokens": usage.get("completion"),
        "cost_usd": next(priced),
        "finish_reason": cell.finish_reason,
    }


def _recorded(backend: Backend, chat_id: str) -> dict[tuple[int, str], list[_Recorded]]:
    """Returns what the records say of the chat's messages, by request id and address; the request id is 0 for what a
    model or a tool said. Equal messages are in the order of their records."""
    found: dict[tuple[int, str], list[_Recorded]] = {}
    models: dict[str, tuple[str, str]] = {}
    with suppress(DemiurgeError):  # records that are damaged, or away in an archive: the messages are there
        for record in Journal(backend).read(Unit(CHAT, chat_id), kinds=("event", "intent", "receipt")):
            at_ms, body = record.stamp.time_ns // 1_000_000, record.body
            if record.kind == "event":
                value = body["value"]
                if record.is_ingress and value.get("$tag") == "UserMessage":
                    said = value["$value"]
                    found.setdefault((said["request_id"], said["message_ref"]), []).append(_Recorded(at_ms))
            elif record.kind == "intent":
                if body["kind"] == LLM:
                    models[body["id"]] = body["params"]["model"], body["params"]["provider"]
            elif isinstance(body["payload"], Mapping):
                ref = body["payload"].get("output_ref") or body["payload"].get("message_ref")
                if ref is not None:
                    by = models.get(body["intent"], (None, None))
                    found.setdefault((0, ref), []).append(_Recorded(at_ms, *by))
    return found


def _files(backend: Backend, messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ExportedFile]]:
    """Yields the attachments of messages and the parts of results, but for those that were erased."""
    for message in messages:
        parts = [*message.get("attachments", ())]
        if "tool" in message:
            parts += parts_of(message["tool"]["result"])
        for part in parts:
            with suppress(NotFound):
                yield part["bytes_ref"], ExportedFile(part["mime"], backend.read.get_blob(parse_ref(part["bytes_ref"])))
