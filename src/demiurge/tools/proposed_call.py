"""A call as somebody asks for it, before the runner has looked at it: nothing here is checked yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

__all__ = ["ProposedCall", "RawArgs", "call_parts"]

RawArgs: TypeAlias = str | bytes | Mapping[str, Any]


class ProposedCall(Protocol):
    """A call as a model asks for it, say `demiurge.wire.ToolCall`. One that says it is `invalid` is not run. One that
    has `raw`, the provider's own payload, gets it kept in its record, privately."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def arguments_json(self) -> str | bytes: ...


def call_parts(call: ProposedCall | tuple[str, str, RawArgs]) -> tuple[str, str, RawArgs, Any]:
    """Its id, its tool, its arguments (none that could be read if it is invalid) and the provider's payload."""
    if isinstance(call, tuple):
        return (*call, None)
    raw_args = "" if getattr(call, "invalid", False) else call.arguments_json
    return call.id, call.name, raw_args, getattr(call, "raw", None)
