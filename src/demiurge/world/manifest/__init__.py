"""A manifest: everything that a world may do, as hashed data.

Schemas, modules, world plans, effects, caps and grants, the world's policy, tool policy, toolset, secrets, routing,
triggers and settings are one canonical node. Its address is in the stamp of every ingress, so each record says under
which rules it was made. A new manifest is checked (`check`) and every problem reported at once; a stored one is only
resolved (`resolve`), so that a manifest accepted once is accepted forever. `sys/*` definitions are built in and cannot
be redefined.
"""

from demiurge.world.manifest.check import problems, unproven_triggers
from demiurge.world.manifest.difference import difference
from demiurge.world.manifest.extension import Bases, extended
from demiurge.world.manifest.folder import Folder, read_folder
from demiurge.world.manifest.model import Manifest
from demiurge.world.manifest.parts import (
    ALLOWED_HOSTS,
    ASKED_TOOLS,
    OBSERVE,
    DeclaredSecret,
    EffectType,
    Grant,
    ModuleType,
    Route,
    Rule,
    Trigger,
    hosts_of,
)
from demiurge.world.manifest.problem import BadManifest, ManifestPlace, Problem
from demiurge.world.manifest.system import system_definitions

__all__ = [
    "ALLOWED_HOSTS",
    "ASKED_TOOLS",
    "OBSERVE",
    "BadManifest",
    "Bases",
    "DeclaredSecret",
    "EffectType",
    "Folder",
    "Grant",
    "Manifest",
    "ManifestPlace",
    "ModuleType",
    "Problem",
    "Route",
    "Rule",
    "Trigger",
    "difference",
    "extended",
    "hosts_of",
    "problems",
    "read_folder",
    "system_definitions",
    "unproven_triggers",
]
