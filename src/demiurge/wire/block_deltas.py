"""The events of a streamed message (Anthropic), put together into the body of the same answer unstreamed.

Invariant: this only joins; what the result means is decided by `anthropic.decode` alone. A delta that belongs to no
open block, or a block that begins where another is still open, means that an event is lost or doubled: the stream is
refused, since a call could otherwise run with arguments that nobody wrote. So is an answer that ends inside a call
without any input yet, since nothing is an input too. A stop reason ends the answer as far as it was written: a block
that begins or goes on after it opens the answer again.

The input of a tool call stays text here, as the model wrote it; unstreamed it is an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.wire import fields
from demiurge.wire.errors import ProviderError

__all__ = ["MAX_BLOCKS", "BlockDeltas"]

MAX_BLOCKS = 1024
"""Content blocks of one answer."""

_JOINED = {"text_delta": "text", "thinking_delta": "thinking"}


class BlockDeltas:
    """`started` once there was an event of a message, `finished` while nothing came after a stop reason."""

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
        """`message_start`: the envelope, and the content that some hosts put there."""
        self.started = True
        self._blocks += [dict(block) for block in fields.mappings(message, "content")]
        self._merge(message)

    def start(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """`content_block_start`; returns the block. Raises ProviderError("bad_response") if another is open there."""
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
        """`content_block_delta`; returns the delta. Raises ProviderError("bad_response") if no block is open there."""
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
        """`content_block_stop`."""
        self._open.pop(self._index(event), None)

    def end(self, event: Mapping[str, Any]) -> None:
        """`message_delta`: why the answer ended, and its counts so far."""
        self.started = True
        self._merge(fields.mapping(event, "delta"))
        self._merge({"usage": event.get("usage")})

    def body(self) -> dict[str, Any]:
        """A `message` object."""
        blocks = [dict(block) for block in self._blocks]
        for (at, key), pieces in self._joined.items():
            blocks[at][key] = "".join(pieces)
        return {**self._message, "content": blocks}

    def _index(self, event: Mapping[str, Any]) -> int:
        """The index that an event names, else that of the latest open block."""
        index = fields.count(event, "index")
        return max(self._open, default=-1) if index is None else index

    def _join(self, at: int, key: str, piece: str) -> None:
        """An `input` begins with what the deltas say; a text goes on from what the block began with."""
        pieces = self._joined.get((at, key))
        if pieces is None:
            if not piece:
                return
            pieces = self._joined[at, key] = [] if key == "input" else [fields.raw_text(self._blocks[at], key)]
        pieces.append(piece)

    def _merge(self, message: Mapping[str, Any]) -> None:
        """Later values replace earlier ones, nulls never do; counts are totals so far."""
        usage = {**fields.mapping(self._message, "usage"), **_given(fields.mapping(message, "usage"))}
        self._message |= _given(message)
        self._has_ended = self._has_ended or bool(message.get("stop_reason"))
        if usage:
            self._message["usage"] = usage


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
