"""Joins the events of a streamed message (Anthropic) into the body of the same answer unstreamed.

Invariant: this module only joins; `anthropic.decode` alone decides what the result means. A delta without an open
block, or a block that begins where another is open, means that an event was lost or doubled: the stream is refused,
since a call could otherwise run with arguments that nobody wrote. An answer that ends inside a call without input is
refused too, since empty input is valid. A stop reason ends the answer so far: a block that begins or continues after it
opens the answer again.

The input of a tool call is the model's text here; unstreamed it is an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.wire import fields
from demiurge.wire.errors import ProviderError

__all__ = ["MAX_BLOCKS", "BlockDeltas"]

MAX_BLOCKS = 1024
"""The most content blocks of one answer."""

_JOINED = {"text_delta": "text", "thinking_delta": "thinking"}


class BlockDeltas:
    """The state of one answer. `started`: an event of a message came; `finished`: nothing came after a stop reason."""

    def __init__(self) -> None:
        self.started = False
        self._message: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._joined: dict[tuple[int, str], list[str]] = {}
        self._open: dict[int, int] = {}
        self._has_ended = False

    @property
    def finished(self) -> bool:
        bare = (
            (at, "input") not in self._joined and self._blocks[at].get("type") == "tool_use"
            for at in self._open.values()
            if not self._blocks[at].get("input")
        )
        return self._has_ended and not any(bare)

    def message(self, message: Mapping[str, Any]) -> None:
        """Takes `message_start`: the envelope, and content that some hosts put there."""
        self.started = True
        self._blocks += [dict(block) for block in fields.mappings(message, "content")]
        self._merge(message)

    def start(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Takes `content_block_start` and returns the block. Raises ProviderError("bad_response") if another block is
        open there."""
        self.started = True
        index = fields.count(event, "index")
        index = len(self._blocks) if index is None else index
        if index in self._open or len(self._blocks) == MAX_BLOCKS:
            raise ProviderError(code="bad_response", detail="a content block begins inside another, or is one too many")
        block = dict(fields.mapping(event, "content_block"))
        self._has_ended = False
        self._open[index] = len(self._blocks)
        self._blocks.append(block)
        return block

    def delta(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Takes `content_block_delta` and returns the delta. Raises ProviderError("bad_response") if no block is open
        there."""
        at = self._open.get(self._index(event))
        if at is None:
            raise ProviderError(code="bad_response", detail="a part of the answer belongs to no content block")
        self._has_ended = False
        block, delta = self._blocks[at], fields.mapping(event, "delta")
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._join(at, "input", fields.raw_text(delta, "partial_json"))
        elif kind == "text_delta" or kind == "thinking_delta":
            key = _JOINED[kind]
            if block.get("type") != key:
                raise ProviderError(
                    code="bad_response", detail="a part of the answer is of another kind than its block"
                )
            self._join(at, key, fields.raw_text(delta, key))
        elif kind == "citations_delta":
            block["citations"] = [*fields.mappings(block, "citations"), delta.get("citation")]
        else:
            block.update({key: value for key, value in delta.items() if key != "type"})
        return delta

    def stop(self, event: Mapping[str, Any]) -> None:
        """Takes `content_block_stop`."""
        self._open.pop(self._index(event), None)

    def end(self, event: Mapping[str, Any]) -> None:
        """Takes `message_delta`: the stop reason, and the counts so far."""
        self.started = True
        self._merge(fields.mapping(event, "delta"))
        self._merge({"usage": event.get("usage")})

    def body(self) -> dict[str, Any]:
        """Returns a `message` object."""
        blocks = [dict(block) for block in self._blocks]
        for (at, key), pieces in self._joined.items():
            blocks[at][key] = "".join(pieces)
        return {**self._message, "content": blocks}

    def _index(self, event: Mapping[str, Any]) -> int:
        """Returns the index in an event, else that of the latest open block."""
        index = fields.count(event, "index")
        return max(self._open, default=-1) if index is None else index

    def _join(self, at: int, key: str, piece: str) -> None:
        """Appends a piece. An `input` consists of its deltas; a text continues the text in the block's start."""
        pieces = self._joined.get((at, key))
        if pieces is None:
            if not piece:
                return
            pieces = self._joined[at, key] = [] if key == "input" else [fields.raw_text(self._blocks[at], key)]
        pieces.append(piece)

    def _merge(self, message: Mapping[str, Any]) -> None:
        """Merges fields: later values replace earlier ones, nulls never do; counts are totals so far."""
        usage = {**fields.mapping(self._message, "usage"), **_given(fields.mapping(message, "usage"))}
        self._message |= _given(message)
        self._has_ended = self._has_ended or bool(message.get("stop_reason"))
        if usage:
            self._message["usage"] = usage


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
