"""`WorldOptions`: the arguments of one `World.open`, checked, with their defaults filled in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from demiurge.bootstrap.manifest import Code
from demiurge.bootstrap.world_tools import GivenTools
from demiurge.errors import UsageError
from demiurge.tools.events import AiEvent
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.policy import ToolPolicy
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import Clock, SystemClock
from demiurge.world.effect import Adapter

__all__ = ["WorldOptions", "chosen_caller", "require_policy"]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldOptions:
    """The arguments of one `World.open`, which documents each of them. `folder` is its `path`; `clock` is
    the one of its units, timers and effects. Raises UsageError (`bad_policy`, `read_only`)."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    tools: GivenTools = ()
    policy: ToolPolicy | None = None
    system_prompt: str | None = None
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    create: bool = True
    perform: bool = True
    read_only: bool = False
    session_types: Sequence[type[Any]] = ()
    manifest: str | PathLike[str] | None = None
    adopt: bool = False
    reducers: Code = field(default_factory=dict)
    adapters: Sequence[Adapter] = ()
    log_tool_errors: bool | ToolErrorLog = False
    emit: Callable[[AiEvent], object] | None = None
    resources: Mapping[Any, Any] = field(default_factory=dict)
    accept_losses: str | None = None
    tell: Callable[[str], None] = LOG.warning
    caller: Caller = USER
    page_url: str | None = None
    http: Sequence[str] | None = None
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if self.policy is not None:
            require_policy(self.policy)
        if self.read_only and (self.adopt or self.manifest is not None or self.accept_losses is not None):
            raise UsageError(
                "manifest, adopt and accept_losses write to the world: leave them out, or leave out read_only.",
                code="read_only",
            )


def require_policy(given: object) -> None:
    """Raises UsageError (`bad_policy`) for what is no ToolPolicy."""
    if not isinstance(given, ToolPolicy):
        raise UsageError("policy is a ToolPolicy; ToolPolicy.load(file) reads one.", code="bad_policy")


def chosen_caller(caller: Caller | None, actor: str | None, tenant: str | None) -> Caller:
    """Returns the caller of a world: `caller`, or the program's own user with another actor or tenant. Raises
    UsageError (`bad_caller`) when both are given, and InvalidValue for a name that is no text or too long."""
    if caller is None:
        return replace(USER, actor=USER.actor if actor is None else actor, tenant=tenant or USER.tenant)
    if actor is not None or tenant is not None:
        raise UsageError("Give either caller, or actor and tenant: a Caller names both.", code="bad_caller")
    return caller
