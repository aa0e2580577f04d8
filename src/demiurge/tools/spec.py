"""The spec of a tool: what a model, a policy and a wire format know of it. It is data, without a schema library.

`spec_hash` covers everything else in the spec, so an approval, a journal record or a reviewed MCP tool names exactly
one wording of one schema. The schema is read-only, because a change would also change what was approved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import is_tool_id
from demiurge.tools.redaction import Redaction
from demiurge.values import canonical_json
from demiurge.values.frozen_json import frozen, thawed
from demiurge.values.refs import ref_of

__all__ = ["ToolSpec"]

FLAGS = ("untrusted", "quarantined")
"""The fields of a spec that are recorded only if they are true."""

_OF_MCP = ("mcp_item", "mcp_listing")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """`name`: `^[a-zA-Z0-9_-]{1,64}$`. `input_schema`: JSON Schema 7; the spec keeps a read-only copy (`copy.deepcopy`
    returns one that can be changed). `details`: text that follows the description, "" for none. `untrusted`: the tool
    hands on other people's text, so its results taint a run. `quarantined`: nobody has trusted the present wording, so
    no model reads it and every call is refused. `mcp_item`: of a prompt, a resource or a template of an MCP server,
    which is called like a tool and offered to no model: its pinned definition, with `kind` and `server`; None for a
    tool. `mcp_listing`: of a tool of an MCP server, what its definition says beside the name and the input schema, for
    clients of the gateway. `spec_hash`: `sha256:<hex>` of the RFC 8785 JSON of the other fields, computed if left out.
    Raises InvalidValue."""

    name: str
    description: str
    input_schema: dict[str, Any] = field(hash=False)
    effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT
    redaction: Redaction = field(default_factory=Redaction, hash=False)
    spec_hash: str = ""
    details: str = field(default="", kw_only=True)
    untrusted: bool = field(default=False, kw_only=True)
    quarantined: bool = field(default=False, kw_only=True)
    mcp_item: Mapping[str, Any] | None = field(default=None, kw_only=True, hash=False)
    mcp_listing: Mapping[str, Any] | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        if not is_tool_id(self.name):
            raise InvalidValue("a tool id is 1 to 64 letters, digits, '_' or '-'", path="name")
        if not isinstance(self.redaction, Redaction):
            raise InvalidValue(f"tool '{self.name}' has no redaction", path="redaction")
        if not isinstance(self.details, str):
            raise InvalidValue(f"the details of tool '{self.name}' must be text", path="details")
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise InvalidValue(f"must be True or False for tool '{self.name}'", path=name)
        for name in _OF_MCP:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(self, "effect", ToolEffect(self.effect))
        object.__setattr__(self, "input_schema", frozen(self.input_schema))
        if not self.spec_hash:
            object.__setattr__(self, "spec_hash", ref_of(canonical_json.encode(self.to_json())))

    @property
    def model_description(self) -> str:
        """The text that a model reads about the tool: the description, then a blank line and the details if there are
        any."""
        return f"{self.description}\n\n{self.details}" if self.details else self.description

    def to_json(self) -> dict[str, Any]:
        """Returns everything that the hash covers, as a copy. `details`, the flags and what is of an MCP
        server are in it only if they are set."""
        return {
            "name": self.name,
            "description": self.description,
            **({"details": self.details} if self.details else {}),
            "input_schema": thawed(self.input_schema),
            "effect": self.effect.value,
            "redaction": self.redaction.to_json(),
            **{name: True for name in FLAGS if getattr(self, name)},
            **{name: thawed(getattr(self, name)) for name in _OF_MCP if getattr(self, name) is not None},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ToolSpec:
        """Returns the spec from its JSON form, the inverse of `to_json`; `spec_hash` is computed again. Raises
        InvalidValue."""
        return cls(
            name=data["name"],
            description=data["description"],
            input_schema=data["input_schema"],
            effect=ToolEffect(data["effect"]),
            redaction=Redaction.from_json(data["redaction"]),
            details=data.get("details", ""),
            mcp_item=data.get("mcp_item"),
            mcp_listing=data.get("mcp_listing"),
            **{name: data.get(name, False) for name in FLAGS},
        )
