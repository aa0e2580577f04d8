"""Converts between provider formats and semantic items: pure functions and decoders without I/O, clock or randomness.

Each format is a module with the same five names: `encode_tools`, `encode_messages`, `encode_text_format`, `decode` and
`Decoder`. Imports from `demiurge.tools` (the spec to encode, the events to emit), `demiurge.values` and
`demiurge.errors` only; `demiurge.models` does HTTP. For a browser there are `data_stream` (its view of a run) and
`chat_history` (the messages that it posts).
"""

from __future__ import annotations

from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.errors import PROVIDER_ERROR_CODES, ProviderError, provider_error
from demiurge.wire.items import (
    Audio,
    Completion,
    FinishReason,
    Image,
    Item,
    Message,
    NamedTool,
    Opaque,
    Part,
    Reasoning,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolOutput,
    Usage,
)
from demiurge.wire.sse import ServerEvent, SseParser

__all__ = [
    "PROVIDER_ERROR_CODES",
    "Audio",
    "Completion",
    "FinishReason",
    "Image",
    "Item",
    "Message",
    "NamedTool",
    "Opaque",
    "Part",
    "ProviderError",
    "Reasoning",
    "ServerEvent",
    "SseParser",
    "Text",
    "TextFormat",
    "ToolCall",
    "ToolChoice",
    "ToolOutput",
    "Usage",
    "anthropic",
    "openai_chat",
    "openai_responses",
    "provider_error",
]
