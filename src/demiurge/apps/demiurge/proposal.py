"""A tool call as the model proposed it, normalised: the tool's id, and the arguments as one JSON object."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.argument_check import may_fit
from demiurge.tools.ids import canonical_id, core_id
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire.rounds import call_identity

__all__ = ["Proposal", "read_proposal"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed call. `tool` is the id of the named tool (see `tools.ids`); `arguments` is None if they are no JSON
    object, or were cut. `identity` is equal for equal calls."""

    id: str
    tool: str
    arguments: Mapping[str, Any] | None
    identity: str

    def fits(self, spec: ToolSpec) -> bool:
        """Returns whether the arguments may fit the schema of `spec`; only the tool itself can check the rest."""
        return self.arguments is not None and may_fit(spec.input_schema, self.arguments)


def read_proposal(data: bytes, known: Container[str] = ()) -> Proposal:
    """Returns the call in a blob of `sys/LlmToolCall@1`. `known`: the ids of the tools that there are; kept
    source of earlier versions calls it without. Raises InvalidValue."""
    stored = canonical_json.parse_object(data)
    tool, text = core_id(canonical_id(stored["name"]), known), stored["arguments_json"]
    arguments = None
    if not stored.get("invalid"):
        try:
            arguments = canonical_json.parse_object(text)
        except InvalidValue:
            arguments = None
    return Proposal(stored["id"], tool, arguments, call_identity(tool, text))
