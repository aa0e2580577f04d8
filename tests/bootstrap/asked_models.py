"""A provider that answers about proposals, for tests of model runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.provider import Answer, Provider

from demiurge import World

__all__ = ["Asked", "asking", "opened_at", "opened_with", "review_of"]

REVIEW = {"recommend": "approve", "sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}


@dataclass
class Asked:
    """A server of Chat Completions. `reply` makes its answer from the messages; `bodies` are the requests so far."""

    reply: Callable[[list[dict[str, Any]]], str]
    usage: dict[str, int] = field(default_factory=lambda: {"prompt_tokens": 700, "completion_tokens": 50})
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def next(self, body: Any, key: str) -> Answer:
        self.bodies.append(body)
        said = {"role": "assistant", "content": self.reply(body["messages"])}
        answer = {
            "id": f"c{len(self.bodies)}",
            "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
            "usage": self.usage,
        }
        return Answer(json.dumps(answer).encode(), kind="application/json")


def asking(server: Provider, reply: Callable[[list[dict[str, Any]]], str] | None = None) -> Asked:
    """Lets a server answer with `reply`, by default with a review that recommends to approve."""
    model = Asked(reply or review_of)
    server.next = model.next  # type: ignore[method-assign]
    return model


def review_of(messages: list[dict[str, Any]], changed: Mapping[str, Any] = REVIEW) -> str:
    """Returns a review of the proposal that the messages are about."""
    [digest] = set(re.findall("sha256:[0-9a-f]{64}", messages[0]["content"]))
    return json.dumps({"digest": digest, **REVIEW, **changed})


def opened_with(folder: Path, server: Provider) -> World:
    """Opens the world in `folder`, whose model is behind `server`; the home of its user is beside it."""
    return opened_at(folder, server.url)


def opened_at(folder: Path, url: str) -> World:
    """Opens the world in `folder`, whose model answers at `url`."""
    home = {"HOME": str(folder.parent)}
    return World.open(folder, provider="openai-chat", model="m", base_url=url, environment=home)
