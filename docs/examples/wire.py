import asyncio
import json

from demiurge import ToolCatalog, ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.wire import Message, Text, ToolOutput, anthropic


@tool(effect=ToolEffect.READ_ONLY)
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


policy = ToolPolicy(("weather",))
items = [Message("system", (Text("Be brief."),)), Message("user", (Text("Weather in Lyon?"),))]
request = anthropic.encode_tools(ToolCatalog.compile([weather], policy).specs(), "auto") | anthropic.encode_messages(
    items
)
print(request["system"], request["messages"], [tool["name"] for tool in request["tools"]])

answer = [
    {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 40, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me look."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "weather"},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"city": '}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"Lyon"}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
    {"type": "message_stop"},
]
stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in answer).encode()

decoder = anthropic.Decoder()
for start in range(0, len(stream), 64):  # as the network cuts it
    for event in decoder.feed(stream[start : start + 64]):
        print(event)
completion = decoder.close()
print(completion.finish_reason, completion.raw_finish_reason, completion.usage)

results = asyncio.run(ToolRunner([weather], policy=policy).exec_many(completion.tool_calls))
items += [*completion.items, *(ToolOutput(result.tool_call_id, result.content) for result in results)]
for message in anthropic.encode_messages(items)["messages"]:
    print(json.dumps(message))

decoder = anthropic.Decoder()
decoder.feed(stream.replace(b'\\"Lyon\\"}', b'\\"Ly').replace(b'"tool_use"}, "usage"', b'"max_tokens"}, "usage"'))
print(decoder.close().tool_calls)
