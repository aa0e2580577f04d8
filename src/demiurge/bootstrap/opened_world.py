"""`OpenedWorld`: a world with its parts and options; `World` adds what can be asked of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.http_client import HttpBackend
from demiurge.bootstrap.connections import Connections
from demiurge.bootstrap.issues import IssueBoard
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.manifest import Code
from demiurge.bootstrap.manifest_settings import Evidence, Titles
from demiurge.bootstrap.mcp_servers import McpServers
from demiurge.bootstrap.opening import Opening
from demiurge.bootstrap.prompt_tools import PromptToolRegistry
from demiurge.bootstrap.shown_records import ShownRecords
from demiurge.bootstrap.standing_rules import StandingRules
from demiurge.bootstrap.stored_blobs import StoredBlobs
from demiurge.bootstrap.tokens import Tokens
from demiurge.bootstrap.webhooks import Webhooks
from demiurge.bootstrap.world_lifetime import WorldLifetime
from demiurge.bootstrap.world_options import Ownership, WorldOptions, chosen_caller
from demiurge.bootstrap.world_tools import GivenTools
from demiurge.models.port import LanguageModel
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.events import AiEvent
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.ports import BlobSink
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.telemetry.run_summary import RunSummary
from demiurge.tools.telemetry.spans import SpanSink
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock, SystemClock
from demiurge.world.effect import Adapter
from demiurge.world.losses import AcceptedLoss
from demiurge.world.sessions import Sessions

__all__ = ["OpenedWorld"]

LOG = logging.getLogger(__name__)


class OpenedWorld(WorldLifetime):
    """A world with its parts and options: `open` and `connect` make one."""

    def __init__(self, backend: Backend, opening: Opening) -> None:
        self.backend, self.opening, self.choice = backend, opening, opening.choice
        self.sessions = Sessions(ShownRecords(backend), opening.events)
        self.blobs, self.journal = StoredBlobs(backend), Journal(backend)
        self.tokens, self.standing_rules, self.webhooks = Tokens(backend), StandingRules(backend), Webhooks(backend)
        self.prompt_tools, self.issues = PromptToolRegistry(backend, self.choice), IssueBoard(backend)
        self.connections, self.mcp = Connections(backend, opening.options.environment), McpServers(backend)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        tools: GivenTools = (),
        policy: ToolPolicy | None = None,
        system_prompt: str | None = None,
        *,
        provider: str | None = None,
        model: str | LanguageModel | None = None,
        base_url: str | None = None,
        max_tokens: int | None = None,
        temperature: float | str | None = None,
        window_turns: int | None = None,
        evidence: Evidence | None = None,
        titles: Titles | None = None,
        environment: Mapping[str, str] | None = None,
        create: bool = True,
        perform: bool = True,
        read_only: bool = False,
        session_types: Sequence[type[Any]] = (),
        manifest: str | os.PathLike[str] | None = None,
        adopt: bool = False,
        reducers: Code = MappingProxyType({}),
        adapters: Sequence[Adapter] = (),
        log_tool_errors: bool | ToolErrorLog = False,
        emit: Callable[[AiEvent], object] | None = None,
        resources: Mapping[Any, Any] | ResourceRegistry = MappingProxyType({}),
        blobs: BlobSink | None = None,
        spans: SpanSink | None = None,
        accept_losses: str | None = None,
        tell: Callable[[str], None] | None = None,
        caller: Caller | None = None,
        actor: str | None = None,
        tenant: str | None = None,
        page_url: str | None = None,
        ownership: Ownership = "keep",
        clock: Clock | None = None,
        http: Sequence[str] | None = None,
    ) -> Self:
        """Opens the world in the folder `path`, and makes it if there is none. If another process has the world open,
        this one joins it; a process that joined becomes the owner when the owner exits.

        - `tools`: tools, BoundTools and sources (ToolSource, AsyncToolSource) that chats get beside the shipped ones.
        - `policy`: the ToolPolicy of the world; by default that of its manifest, else `default_policy`.
        - `system_prompt`: what the model of each chat is told first; None keeps the manifest's prompt.
        - `provider`, `model`, `base_url`: which model answers, and where. None leaves it to the environment. `model`
          may be an object with `async generate(request, *, on_event=None)` in place of a name, such as a ScriptedModel:
          it needs no key, is recorded as the provider `python`, and answers in this process alone.
        - `max_tokens`: the most tokens of an answer in chats that have no limit of their own; `temperature`: 0 to 2;
          `window_turns`: how many turns of a chat the model is told; `evidence`: what becomes of an answer whose
          evidence does not hold, "off", "mark", "retry" or "refuse"; `titles`: whether the model is asked for the
          title of a chat, "auto" (not a local model, nor one of this process), "always" or "off". None keeps the
          setting of the manifest.
        - `environment`: the variables that hold keys and folders; None is `os.environ`.
        - `create`: False raises NotFound if there is no world.
        - `perform`: False takes events in and leaves their effects to the process that opens the world next.
        - `read_only`: True opens the world to read it. Each call that would write is refused (Unavailable,
          `read_only`), no world is made, and this process never becomes the owner: when the owner that it joined exits,
          its calls raise Unavailable (`owner_gone`). If nobody owns the world, nobody can until it is closed here.
        - `session_types`: dataclasses and pydantic models that tools broadcast in sessions, and types with `@reducer`
          methods. The result types of `tools` need not be named.
        - `manifest`: a folder with definitions that replace those of the world. The world keeps them, and the user's
          config folder notes that they were set here.
        - `adopt`: True accepts the definitions that a world from elsewhere, or a copy, brought with it. Until then, or
          until `manifest` is set here, such a world can be read and takes no event (`not_adopted`).
        - `reducers`: the functions of the manifest's modules, by module name. A world never keeps code; if the code of
          a module is not given, the world can be read and takes no event.
        - `adapters`: the code that performs effects which the manifest adds.
        - `resources`: objects by their type, such as `{Pool: pool}`, that handlers get by
          `context.resources.get(Pool)`; among them a RunSummary and a GraphRun, as for ToolRunner.
        - `blobs`: a store with `put(bytes)` that gets a copy of each result which is too large for the policy; the
          world keeps its own. `spans`: a SpanSink. `log_tool_errors`, `emit`: as for ToolRunner. Like `resources`, they
          are for the tool calls that this process answers.
        - `accept_losses`: a reason to go on without what the world's files have lost. The loss is recorded, and
          everything that was open ends as `unknown_outcome`; `World.accepted` describes it. Without a reason such a
          world can be read where that is possible, and takes no event (Damaged, `lost`).
        - `tell`: called with a sentence for the user when the world can only be read, since its disk takes no writes or
          its owner does not answer; see `read_only`. By default the sentence is a warning in the log.
        - `caller`: the Caller of everything that is asked of this `World`; by default the user who runs the program.
        - `page_url`: the address at which people open this world; the notices of its webhooks link to it.
        - `ownership`: "yield" lets a process that opens the world with "take" become the owner in place of this one,
          which then is a process that joined. `demiurge serve` takes, every other command yields. By default a process
          does neither: it joins the owner, and stays the owner until it closes the world.
        - `clock`: the clock of its units, timers and effects; by default the machine's. See docs/testing.md.
        - `http`: the hosts that tools may ask by https, such as `api.example.com` or `host:8443`; none by default.
        - `actor`, `tenant`: the same user under another actor or for another tenant; not together with `caller`.

        Raises NotFound, BadManifest, InvalidValue (`bad_code`, `bad_host`; the option), Conflict (`owned`: another
        process runs the world with other tools, hosts, settings, policy or manifest, or `model` is an object;
        `http_granted`: the manifest has a grant of HTTP), UsageError (`bad_policy`, `bad_caller`, `bad_model`, or the
        world was made by a newer version), Unavailable (`moved`: a copy of a world for which a policy is remembered
        needs `policy`), Damaged."""
        opening = Opening.of(
            WorldOptions(
                folder=Path(path),
                environment=os.environ if environment is None else environment,
                tools=tools,
                policy=policy,
                system_prompt=system_prompt,
                provider=provider,
                model=model,
                base_url=base_url,
                max_tokens=max_tokens,
                temperature=temperature,
                window_turns=window_turns,
                evidence=evidence,
                titles=titles,
                create=create,
                perform=perform,
                read_only=read_only,
                session_types=session_types,
                manifest=manifest,
                adopt=adopt,
                reducers=reducers,
                adapters=adapters,
                log_tool_errors=log_tool_errors,
                emit=emit,
                resources=resources,
                blobs=blobs,
                spans=spans,
                accept_losses=accept_losses,
                tell=tell if tell is not None else LOG.warning,
                caller=chosen_caller(caller, actor, tenant),
                page_url=page_url,
                ownership=ownership,
                clock=clock if clock is not None else SystemClock(),
                http=http,
            )
        )
        return cls.of_opening(opening)

    @classmethod
    def connect(cls, url: str, token: str | None = None, *, session_types: Sequence[type[Any]] = ()) -> Self:
        """Connects to the world that `demiurge serve` serves at `url`, such as `http://127.0.0.1:7777`.

        `token` is one of `demiurge tokens add`, by default that in DEMIURGE_TOKEN; it says who the caller is. Tools run
        at the server. `session_types` are as for `open`. Raises UsageError (`unauthorized`), Unavailable."""
        backend = HttpBackend(url, token if token is not None else os.environ.get("DEMIURGE_TOKEN", ""))
        return cls(backend, Opening.of_server(url, backend.caller, backend.choice, session_types))

    @property
    def caller(self) -> Caller:
        """The caller of everything that is asked of this `World`."""
        return self.backend.caller

    def acting_as(self, caller: Caller) -> Self:
        """Returns the same open world for another caller, whose roles bound what it may ask (UsageError,
        `role_missing`). Close the world that was opened, not this one."""
        return type(self)(self.backend.of(caller), self.opening)

    @property
    def accepted(self) -> AcceptedLoss | None:
        """The loss that was accepted when the world was opened with `accept_losses`; None if nothing was lost."""
        return self.opening.losses.accepted

    @property
    def summary(self) -> RunSummary:
        """The tool calls that this process has answered, in numbers: the RunSummary it was opened with, or its own."""
        return self.opening.observers.summary

    @property
    def owned(self) -> bool:
        """True if this process owns the world. Otherwise another process does the work that is requested here."""
        return self.backend.owner

    @property
    def joined(self) -> bool:
        """True while another process, the owner, answers every call of this one."""
        return self.backend.joined

    @property
    def read_only(self) -> str | None:
        """The reason, as a sentence for the user, why this process can't write to the world; None if it can."""
        return self.backend.read_only
