"""The context of a handler: references and capabilities, never credentials or ambient state.

Every attribute is always there. If there is no prompt, adapter or session, a null object takes its place, so a
handler written for a full run also works in a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar, cast, overload

from demiurge.tools.capabilities import Clock, FollowsClock
from demiurge.tools.events import LogLevel
from demiurge.tools.execution.progress import check_log, check_progress
from demiurge.tools.filesystem import Filesystem
from demiurge.tools.input_required import Resumed
from demiurge.tools.limits.budget import BudgetTracker
from demiurge.tools.limits.deadline import Deadline
from demiurge.tools.policy import ToolPolicyContext

__all__ = [
    "NullAdapter",
    "NullBus",
    "NullPrompt",
    "NullPublication",
    "NullSession",
    "NullSlice",
    "ResourceRegistry",
    "ToolContext",
]

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class ResourceRegistry:
    """Capabilities by their type. Keys are usually Protocols; values are not checked against them."""

    _entries: Mapping[Any, Any] = field(default_factory=lambda: MappingProxyType({}))

    # A `Callable[..., T]` instead of `type[T]` lets a Protocol be a key under strict type checking.
    @overload
    def get(self, resource_type: Callable[..., T]) -> T | None: ...
    @overload
    def get(self, resource_type: Callable[..., T], default: D) -> T | D: ...
    def get(self, resource_type: Callable[..., T], default: Any = None) -> Any:
        """Returns the resource bound to this type, or `default`."""
        return self._entries.get(resource_type, default)

    def __contains__(self, resource_type: object) -> bool:
        return resource_type in self._entries

    @staticmethod
    def build(mapping: Mapping[Any, Any]) -> ResourceRegistry:
        """Returns a registry over a copy of `mapping`; entries that are None are left out."""
        kept = {key: value for key, value in mapping.items() if value is not None}
        return ResourceRegistry(MappingProxyType(kept))

    @property
    def entries(self) -> Mapping[Any, Any]:
        """All entries, read-only."""
        return self._entries

    def filled(self, defaults: Mapping[Any, Any]) -> ResourceRegistry:
        """Returns a copy of this registry, with `defaults` for the types that it lacks."""
        return ResourceRegistry.build({**defaults, **self._entries})

    def with_clock(self, clock: Clock) -> ResourceRegistry:
        """Returns a copy of this registry in which a Clock is bound, by default `clock`, and what follows a clock
        follows that one."""
        bound = self.get(Clock, clock)
        followed = {
            key: value.with_clock(bound) if isinstance(value, FollowsClock) else value
            for key, value in self._entries.items()
        }
        return ResourceRegistry.build({Clock: bound, **followed})


class NullSlice:
    """A slice of a session that is always empty and ignores changes."""

    def all(self) -> tuple[Any, ...]:
        return ()

    def latest(self) -> Any:
        return None

    def where(self, predicate: Callable[[Any], bool]) -> tuple[Any, ...]:
        return ()

    def append(self, value: Any) -> None:
        return None

    def seed(self, value: Any) -> None:
        return None

    def clear(self, predicate: Callable[[Any], bool] | None = None) -> None:
        return None


@dataclass(frozen=True, slots=True)
class NullPublication:
    """The result of publishing an event without subscribers: no errors."""

    event: Any
    handlers_invoked: tuple[()] = ()
    errors: tuple[()] = ()
    handled_count: int = 0
    ok: bool = True

    def raise_if_errors(self) -> None:
        return None


class NullBus:
    """An event bus without subscribers."""

    def subscribe(self, event_type: type[Any], handler: Callable[[Any], None]) -> None:
        return None

    def unsubscribe(self, event_type: type[Any], handler: Callable[[Any], None]) -> bool:
        return False

    def publish(self, event: Any) -> NullPublication:
        return NullPublication(event)


class NullSession:
    """A session without state."""

    event_bus = NullBus()
    session_id = None
    tags: Mapping[str, str] = MappingProxyType({})

    def __getitem__(self, slice_type: type[Any]) -> NullSlice:
        return NullSlice()

    def broadcast(self, event: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class NullPrompt:
    """A prompt without a name or tools."""

    ns: str = ""
    key: str = ""
    name: str = ""
    tools: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class NullAdapter:
    """An adapter without a provider."""

    name: str = "none"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The immutable snapshot that every handler gets as `context`.

    `prompt`, `rendered_prompt`, `adapter` and `session` belong to packages above this one, hence `Any`. The runner
    puts `deadline` and `budget_tracker` into `resources` too, or takes them from there by their type. `caller`: the
    actor, tenant, roles and run; `connection_id` is an opaque reference; `tool_call_id` is the id of this call.
    `resumed`: a person's answers to the questions of an earlier leg of this call (`tools.input_required`); None in the
    first leg."""

    prompt: Any = NullPrompt()
    rendered_prompt: Any = None
    adapter: Any = NullAdapter()
    session: Any = field(default_factory=NullSession)
    deadline: Deadline | None = None
    budget_tracker: BudgetTracker | None = None
    resources: ResourceRegistry = field(default_factory=ResourceRegistry)
    tool_call_id: str = ""
    caller: ToolPolicyContext = field(default_factory=ToolPolicyContext)
    connection_id: str | None = None
    resumed: Resumed | None = None
    _report: Callable[[float, float | None, str], None] = field(default=check_progress, repr=False, compare=False)
    _log: Callable[[LogLevel, str, str], None] = field(default=check_log, repr=False, compare=False)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Reports the progress of this call to watchers: `done` of `total`, in any unit; `total` None if unknown.

        May be called as often as the handler likes and from any thread: at most ten reports a second are shown, the
        newest one always. Nothing is recorded. Everybody who may watch the call sees the message, whatever the
        tool's redaction, so it must hold no private data. Secrets that this process knows are masked, line breaks
        become spaces, and what exceeds 200 characters is cut off. Does nothing after the call has ended, or where
        nobody listens. Raises InvalidValue if a number is negative, NaN or infinite."""
        self._report(done, total, message)

    def log(self, level: LogLevel, text: str, logger: str = "") -> None:
        """Says something about this call to those who may see what it does, never to a model. Nothing is recorded.

        `text` is shown in one line of at most 1000 characters, with secrets that this process knows masked; of a call
        at most 200 lines are shown. Does nothing after the call has ended. Raises InvalidValue for another level."""
        self._log(level, text, logger)

    @property
    def filesystem(self) -> Filesystem | None:
        """The filesystem among the resources; the same as `resources.get(Filesystem)`."""
        return cast("Filesystem | None", self.resources.get(Filesystem))
