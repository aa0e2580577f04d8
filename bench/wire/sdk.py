"""What the official SDKs make of recorded bytes: runs in their environment, reads interactions and writes one answer
each, as JSON lines.

The bytes go through the SDK's own client and transport; only the socket is replaced. An answer is `text`, `calls`
(id, name, arguments), `finish` and `usage` (prompt, completion, cached, reasoning, cache_written), or `error`; for a
stream also `seconds`: from its first byte to the SDK's own accumulated answer, of the quickest of REPEATS, since the
SDKs make their models of a format when it is first read.
"""

import base64
import json
import sys
import time
from typing import Any

import anthropic
import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState


def main() -> None:
    for line in sys.stdin:
        row = json.loads(line)
        body = base64.b64decode(row["body"])
        response = {"status_code": row["status"], "headers": {"content-type": row["content_type"]}, "content": body}
        http = httpx2.Client(transport=httpx2.MockTransport(lambda _, kept=response: httpx2.Response(**kept)))
        try:
            answers = [READERS[row["api"]](http, row["stream"]) for _ in range(REPEATS if row["stream"] else 1)]
            answer = min(answers, key=lambda answer: answer["seconds"])
        except Exception as error:  # noqa: BLE001 - whatever an SDK raises is its answer
            answer = {"error": type(error).__name__, "status": getattr(error, "status_code", None)}
        print(json.dumps(answer))


def chat(http: Any, stream: bool) -> dict[str, Any]:
    client = openai.OpenAI(api_key="none", http_client=http, max_retries=0)
    made = client.chat.completions.create(model="m", messages=[], stream=stream)
    start = time.perf_counter()
    if stream:
        state = ChatCompletionStreamState()
        for chunk in made:
            state.handle_chunk(chunk)
        made = state.current_completion_snapshot
    seconds = time.perf_counter() - start
    choice = made.choices[0]
    message = choice.message
    text = message.content or ""
    if not isinstance(text, str):
        text = "".join(part["text"] for part in text if part["type"] == "text")
    calls = [
        [call.id, call.custom.name, call.custom.input]
        if call.type == "custom"
        else [call.id, call.function.name, call.function.arguments]
        for call in message.tool_calls or ()
    ]
    return {
        "text": text + (message.refusal or ""),
        "calls": calls,
        "finish": choice.finish_reason,
        "usage": tokens(made.usage, "prompt_tokens", "completion_tokens"),
        "seconds": seconds,
    }


def responses(http: Any, stream: bool) -> dict[str, Any]:
    client = openai.OpenAI(api_key="none", http_client=http, max_retries=0)
    made = client.responses.create(model="m", input="", stream=stream)
    start = time.perf_counter()
    if stream:
        last = None
        for event in made:
            last = getattr(event, "response", None) or last
        made = last
    seconds = time.perf_counter() - start
    parts = [part for item in made.output if item.type == "message" for part in item.content]
    details = made.incomplete_details
    return {
        "text": "".join(part.text if part.type == "output_text" else part.refusal for part in parts),
        "calls": [
            [item.call_id, item.name, item.arguments if item.type == "function_call" else item.input]
            for item in made.output
            if item.type in ("function_call", "custom_tool_call")
        ],
        "finish": (details.reason if details else None) or made.status,
        "usage": tokens(made.usage, "input_tokens", "output_tokens"),
        "seconds": seconds,
    }


def messages(http: Any, stream: bool) -> dict[str, Any]:
    client = anthropic.Anthropic(api_key="none", http_client=http, max_retries=0)
    seconds = 0.0
    if stream:
        with client.beta.messages.stream(model="m", max_tokens=1, messages=[]) as events:
            start = time.perf_counter()
            made = events.get_final_message()
            seconds = time.perf_counter() - start
    else:
        made = client.beta.messages.create(model="m", max_tokens=1, messages=[])
    usage = made.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = getattr(usage, "output_tokens_details", None)
    thought = getattr(details, "thinking_tokens", None) or 0
    return {
        "text": "".join(block.text for block in made.content if block.type == "text"),
        "calls": [[block.id, block.name, block.input] for block in made.content if block.type == "tool_use"],
        "finish": made.stop_reason,
        "usage": [(usage.input_tokens or 0) + read + written, usage.output_tokens, read, thought, written],
        "seconds": seconds,
    }


def tokens(usage: Any, prompt: str, completion: str) -> list[int] | None:
    """None where nothing was counted."""
    if usage is None:
        return None
    cached = getattr(usage, f"{prompt}_details", None)
    reasoning = getattr(usage, f"{completion}_details", None)
    return [
        getattr(usage, prompt),
        getattr(usage, completion),
        getattr(cached, "cached_tokens", None) or 0,
        getattr(reasoning, "reasoning_tokens", None) or 0,
        getattr(cached, "cache_write_tokens", None) or 0,
    ]


REPEATS = 3

READERS = {"chat": chat, "responses": responses, "messages": messages}

if __name__ == "__main__":
    main()
