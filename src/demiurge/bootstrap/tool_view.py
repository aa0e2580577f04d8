"""The tools of a world as data, as `demiurge tools` and `GET /api/tools` show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.bootstrap.policy_view import decision_on
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.values.caller import Caller

__all__ = ["tool_views"]

BYTES_PER_TOKEN: Final = 4
"""A rough mean for English and JSON; every model counts differently."""

SHIPPED: Final = frozenset(("core", "introspect", "workspace"))
"""The prefixes of the tools that come with Demiurge."""


def tool_views(node: Mapping[str, Any], caller: Caller) -> list[dict[str, Any]]:
    """Returns every tool of the manifest `node`, by name: `{id, effect, decision, why, source, tokens, spec_hash,
    description, input_schema, redaction}`. `decision` is the tool policy's on a call by `caller`, and `why` says the
    reason; `tokens` is about what the tool costs in each request to a model."""
    policy = ToolPolicy.from_json(node["tool_policy"])
    specs = sorted(map(ToolSpec.from_json, node["toolset"]), key=lambda spec: spec.name)
    return [_view(policy, spec, caller) for spec in specs]


def _view(policy: ToolPolicy, spec: ToolSpec, caller: Caller) -> dict[str, Any]:
    schema = spec.to_json()["input_schema"]
    sent = canonical_json.encode({"name": spec.name, "description": spec.description, "input_schema": schema})
    decided = decision_on(policy, spec.name, spec.effect, caller)
    return {
        "id": spec.name,
        "effect": spec.effect.value,
        "decision": decided["decision"],
        "why": decided["why"],
        "source": "shipped" if spec.name.partition("__")[0] in SHIPPED else "yours",
        "tokens": -(-len(sent) // BYTES_PER_TOKEN),
        "spec_hash": spec.spec_hash,
        "description": spec.description,
        "input_schema": schema,
        "redaction": spec.redaction.to_json(),
    }
