"""`introspect__*`: tools that read the world's own manifest and state. The manifest, with its schemas and modules,
is public; of a state only its module and key are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from demiurge.tools.capabilities import Introspection
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = [
    "ManifestView",
    "ModuleView",
    "ReadManifest",
    "ReadModule",
    "ReadSchemas",
    "ReadState",
    "SchemasView",
    "StateView",
    "manifest",
    "module",
    "schemas",
    "state",
]


@dataclass(frozen=True, slots=True)
class ReadManifest:
    pass


@dataclass(frozen=True, slots=True)
class ManifestView:
    manifest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadState:
    module: str | None = field(
        default=None,
        metadata={
            "description": "Full module name with its version, exactly as in the request. Leave out for this chat."
        },
    )
    key: str | None = field(
        default=None, metadata={"description": "Leave out, unless the request names a cell of the module."}
    )


@dataclass(frozen=True, slots=True)
class StateView:
    """A cell's state. `module` and `key` as requested; None means this chat."""

    module: str | None
    key: str | None
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadSchemas:
    prefix: str | None = field(
        default=None,
        metadata={"description": "Start of the names whose types to show. Left out: all names, no types."},
    )


@dataclass(frozen=True, slots=True)
class SchemasView:
    schemas: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadModule:
    name: str = field(metadata={"description": "Full module name with its version."})


@dataclass(frozen=True, slots=True)
class ModuleView:
    module: dict[str, Any]


async def _manifest(params: ReadManifest, *, context: ToolContext) -> ToolResult[ManifestView]:
    found = await _world(context).manifest()
    return ToolResult(message="The manifest of this world.", value=ManifestView(dict(found)))


async def _state(params: ReadState, *, context: ToolContext) -> ToolResult[StateView]:
    found = await _world(context).state(params.module, params.key)
    return ToolResult(message="The stored state.", value=StateView(params.module, params.key, dict(found)))


async def _schemas(params: ReadSchemas, *, context: ToolContext) -> ToolResult[SchemasView]:
    found = await _world(context).schemas(params.prefix)
    return ToolResult(message="The schemas of this world.", value=SchemasView(dict(found)))


async def _module(params: ReadModule, *, context: ToolContext) -> ToolResult[ModuleView]:
    found = await _world(context).module(params.name)
    return ToolResult(message="The module.", value=ModuleView(dict(found)))


def _world(context: ToolContext) -> Introspection:
    found = context.resources.get(Introspection)
    if found is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    return found


manifest = CoreTool[ReadManifest, ManifestView](
    name="introspect__manifest",
    description="Show the manifest of this world: its schemas, modules, plans, effects and policies.",
    handler=_manifest,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("manifest"),
    capabilities=(Introspection,),
)

state = CoreTool[ReadState, StateView](
    name="introspect__state",
    description="Read the stored state of this chat (no arguments), or of a module when one is named.",
    handler=_state,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("module", "key"),
    capabilities=(Introspection,),
)

schemas = CoreTool[ReadSchemas, SchemasView](
    name="introspect__schemas",
    description="List the schemas of this world, or show the types of those whose names start with a prefix.",
    handler=_schemas,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("schemas"),
    capabilities=(Introspection,),
)

module = CoreTool[ReadModule, ModuleView](
    name="introspect__module",
    description="Show what a module of this world declares: its state, its events, its key and its source.",
    handler=_module,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("module"),
    capabilities=(Introspection,),
)
