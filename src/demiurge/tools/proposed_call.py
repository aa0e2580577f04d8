"""A tool call as a model or a person proposes it, before the runner has checked anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

__all__ = ["ProposedCall", "RawArgs", "call_parts"]

RawArgs: TypeAlias = str | bytes | Mapping[str, Any]


class ProposedCall(Protocol):
    """A call as a model proposes it, for example `demiurge.wire.ToolCall`. A call with a true attribute `invalid` is
    not run. An attribute `raw`, the provider's own payload, is kept in the call's record, privately."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def arguments_json(self) -> str | bytes: ...


def call_parts(call: ProposedCall | tuple[str, str, RawArgs]) -> tuple[str, str, RawArgs, Any]:
    """Returns the call's id, its tool id, its arguments ("" if the call is `invalid`) and the provider's payload or
    None."""
    if isinstance(call, tuple):
        return (*call, None)
    raw_args = "" if getattr(call, "invalid", False) else call.arguments_json
    return call.id, call.name, raw_args, getattr(call, "raw", None)
