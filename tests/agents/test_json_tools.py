"""The agent loop with a model without native tool calling."""

from __future__ import annotations

import json
import re

from demiurge import AgentLoop, ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.models.port import OnEvent
from demiurge.models.request import GenerateRequest
from demiurge.wire.items import Completion, Message, Text

RAN: list[str] = []


@tool(effect=ToolEffect.READ_ONLY)
def read_note(path: str) -> str:
    """Reads a note."""
    RAN.append(path)
    return f"read {path}"


class TextModel:
    """Calls `read_note` in each of its first replies, by the nonces of `requests` that it names, then answers."""

    def __init__(self, *nonce_of_request: int) -> None:
        self.nonce_of_request = nonce_of_request
        self.nonces: list[str] = []

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        assert request.specs == ()
        last = request.items[-1]
        assert isinstance(last, Message)
        at = len(self.nonces)
        self.nonces += re.findall("TOOL_NONCE: ([0-9a-f]{32})", last.text)
        text = "Done."
        if at < len(self.nonce_of_request):
            nonce = self.nonces[self.nonce_of_request[at]]
            text = json.dumps({"tool": "read_note", "args": {"path": f"{at}.md"}, "nonce": nonce})
        return Completion(text, (), "stop", None, (Message("assistant", (Text(text),)),))


async def test_a_call_with_the_nonce_of_its_request_runs_and_one_with_an_older_nonce_does_not() -> None:
    RAN.clear()
    model = TextModel(0, 0, 2)
    runner = ToolRunner([read_note], policy=ToolPolicy(("read_note",)))
    loop = AgentLoop(model, runner, provider="openai-chat-json", model_name="any")
    turn = await loop.complete("Read.")
    assert (turn.status, turn.text) == ("done", "Done.")
    assert RAN == ["0.md", "2.md"]
    assert len(set(model.nonces)) == 4
