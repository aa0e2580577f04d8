"""`WorldOptions`: the arguments of one `World.open`, checked, with their defaults filled in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

from demiurge.bootstrap.manifest import Code
from demiurge.bootstrap.manifest_settings import SETTINGS, Evidence, Titles
from demiurge.bootstrap.world_tools import GivenTools
from demiurge.errors import InvalidValue, UsageError
from demiurge.models.port import LanguageModel
from demiurge.models.request import temperature_text
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.events import AiEvent
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.ports import BlobSink
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.telemetry.spans import SpanSink
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import Clock, SystemClock
from demiurge.world.effect import Adapter

__all__ = ["CHAT_SETTINGS", "Ownership", "WorldOptions", "chosen_caller", "require_policy"]

Ownership = Literal["keep", "take", "yield"]
"""The side of a process when two want to own a world: it keeps the world, takes it from one that yields it, or yields
it to one that takes it."""

CHAT_SETTINGS: Final = ("evidence", "max_tokens", "temperature", "titles", "window_turns")
"""The settings of a manifest that options of the same name replace."""

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
    model: str | LanguageModel | None = None
    base_url: str | None = None
    max_tokens: int | None = None
    temperature: float | str | None = None
    window_turns: int | None = None
    evidence: Evidence | None = None
    titles: Titles | None = None
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
    resources: Mapping[Any, Any] | ResourceRegistry = field(default_factory=dict)
    blobs: BlobSink | None = None
    spans: SpanSink | None = None
    accept_losses: str | None = None
    tell: Callable[[str], None] = LOG.warning
    caller: Caller = USER
    page_url: str | None = None
    ownership: Ownership = "keep"
    http: Sequence[str] | None = None
    clock: Clock = field(default_factory=SystemClock)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of chats that these options name, as the manifest writes them. Raises InvalidValue."""
        named: dict[str, Any] = {"max_tokens": self.max_tokens, "window_turns": self.window_turns}
        for name, value in named.items():
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidValue("is a whole number, at least 1", path=name)
        if self.temperature is not None:
            named["temperature"] = temperature_text(self.temperature)
        for name, word in (("evidence", self.evidence), ("titles", self.titles)):
            if word is not None and not SETTINGS[name].accepts(word):
                raise InvalidValue(f"is {SETTINGS[name].words}", path=name)
            named[name] = word
        return {name: value for name, value in named.items() if value is not None}

    def __post_init__(self) -> None:
        if self.policy is not None:
            require_policy(self.policy)
        if self.system_prompt is not None and not isinstance(self.system_prompt, str):
            raise InvalidValue(f"must be text, not {type(self.system_prompt).__name__}", path="system_prompt")
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
    if not isinstance(caller, Caller):
        raise UsageError("caller is a Caller; give a name as actor, as in actor='user:ada'.", code="bad_caller")
    return caller
