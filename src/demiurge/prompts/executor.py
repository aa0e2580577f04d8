"""Runs the tool calls that a model makes in answer to a rendered prompt.

Only tools that the prompt shows and the policy allows can run. All calls go through `ToolRunner`; the executor adds
what a loop around a prompt needs: the prompt and its session in the handler's context, tool messages for the next
request, and the table of exceptions in docs/prompts.md. A call that cannot run is answered. Only what ends the
evaluation is raised: VisibilityExpansionRequired, PromptEvaluationError, and an expired deadline as the latter. Each
carries the tool messages of the batch (`tool_messages`), so that what ran before the end is not lost. A cancellation
or a Ctrl-C carries nothing, so a loop that has to keep the answers takes each message as soon as it is final
(`answered`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from demiurge.prompts.errors import PromptEvaluationError, PromptValidationError
from demiurge.prompts.prompt import Prompt
from demiurge.prompts.rendered import RenderedPrompt
from demiurge.tools.approvals import ApprovalStore
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.connections.access import ConnectionAccess
from demiurge.tools.context import NullAdapter, NullPrompt, NullSession, ResourceRegistry, ToolContext
from demiurge.tools.errors import LoopSignal, ToolErrorCode
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.filesystem import Filesystem
from demiurge.tools.ledger.ledger import Ledger
from demiurge.tools.limits.budget import BudgetTracker
from demiurge.tools.limits.deadline import Deadline
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.record import ToolExecResult
from demiurge.tools.runner import ProposedCall, RawArgs, ToolRunner

__all__ = ["ProviderCall", "ToolExecutionContext", "ToolExecutor", "ToolMessage"]

ToolMessage: TypeAlias = dict[str, str]
"""`{"role": "tool", "tool_call_id", "content"}`."""


class ProviderFunction(Protocol):
    """The function of a provider's call. `arguments`: the JSON text as it came."""

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> str | None: ...


class ProviderCall(Protocol):
    """A call in the form of Chat Completions libraries."""

    @property
    def id(self) -> str: ...

    @property
    def function(self) -> ProviderFunction: ...


AnyProposedCall: TypeAlias = ProposedCall | ProviderCall | Mapping[str, Any] | tuple[str, str, RawArgs]
"""A Mapping is a call as Chat Completions sends it, `{"id", "function": {"name", "arguments"}}`."""


@dataclass(frozen=True, kw_only=True)
class ToolExecutionContext:
    """The settings that the calls of one evaluation share.

    `rendered_prompt` holds the tools; without it `prompt` is rendered for the session. `tool_registry`, by name, and
    `policy` restrict them. `adapter`, or `adapter_name` if it is only a name: what speaks with the provider.
    `deadline`: by default the rendered prompt's. `effect_ledger`: where results of tools with an `idempotency` are
    stored. `resources`: by their type, for the handlers; the prompt's own files are added. `provider_payload`: kept
    in a PromptEvaluationError. `caller`: the caller of all calls. `log_tool_errors`: as for ToolRunner. Raises
    PromptValidationError without a prompt, and for a tool that cannot be registered."""

    prompt: Prompt[Any] | NullPrompt = field(default_factory=NullPrompt)
    rendered_prompt: RenderedPrompt[Any] | None = None
    session: Any = field(default_factory=NullSession)
    adapter: Any = None
    adapter_name: str = "none"
    prompt_name: str = ""
    tool_registry: Mapping[str, Tool[Any, Any]] | None = None
    deadline: Deadline | None = None
    budget_tracker: BudgetTracker | None = None
    effect_ledger: Ledger | None = None
    resources: ResourceRegistry | Mapping[Any, Any] = field(default_factory=ResourceRegistry)
    policy: ToolPolicy | None = None
    approvals: ApprovalStore | None = None
    connections: ConnectionAccess | None = None
    provider_payload: Mapping[str, Any] | None = field(default=None, repr=False)
    caller: ToolPolicyContext = field(default_factory=ToolPolicyContext)
    log_tool_errors: bool | ToolErrorLog = False
    tool_context: ToolContext = field(init=False, repr=False, compare=False)
    """The context of every handler, except for the id of its call."""
    runner: ToolRunner = field(init=False, repr=False, compare=False)
    """The runner of all calls."""

    def __post_init__(self) -> None:
        rendered = self.rendered_prompt
        if rendered is None:
            if not isinstance(self.prompt, Prompt):
                raise PromptValidationError(
                    "there is no prompt: pass a Prompt or a rendered prompt", placeholder="rendered_prompt"
                )
            rendered = self.prompt.render(session=self.session)
            object.__setattr__(self, "rendered_prompt", rendered)
        if isinstance(self.prompt, NullPrompt):
            ns, key = rendered.descriptor.ns, rendered.descriptor.key
            object.__setattr__(self, "prompt", NullPrompt(ns, key, f"{ns}/{key}"))
        object.__setattr__(self, "prompt_name", self.prompt_name or self.prompt.name)
        object.__setattr__(self, "tool_context", self._tool_context(rendered))
        object.__setattr__(self, "runner", self._runner(rendered))

    def _tool_context(self, rendered: RenderedPrompt[Any]) -> ToolContext:
        bound = self.resources
        resources = bound if isinstance(bound, ResourceRegistry) else ResourceRegistry.build(bound)
        if isinstance(self.prompt, Prompt):
            resources = resources.filled({Filesystem: self.prompt.filesystem()})
        return ToolContext(
            prompt=self.prompt,
            rendered_prompt=rendered,
            adapter=NullAdapter(self.adapter_name) if self.adapter is None else self.adapter,
            session=self.session,
            deadline=self.deadline if self.deadline is not None else rendered.deadline,
            budget_tracker=self.budget_tracker,
            resources=resources,
            caller=self.caller,
        )

    def _runner(self, rendered: RenderedPrompt[Any]) -> ToolRunner:
        registry = self.tool_registry
        if not (registry is None or isinstance(registry, Mapping)):
            raise PromptValidationError("'tool_registry' must map names to tools", placeholder="tool_registry")
        tools = [tool for tool in rendered.tools if registry is None or tool.name in registry]
        allow_all = ToolPolicy(allowed_tools=tuple(tool.name for tool in tools))
        return ToolRunner(
            tools,
            policy=allow_all if self.policy is None else self.policy,
            ledger=self.effect_ledger,
            approvals=self.approvals,
            connections=self.connections,
            log_tool_errors=self.log_tool_errors,
        )


class ToolExecutor(ToolExecutionContext):
    """`ToolExecutor(rendered_prompt=..., session=..., effect_ledger=...)`: has the arguments of its base class, and
    runs calls.

    Calls run one at a time, in the order of the request, so that each sees the effects of the one before it."""

    def execute(
        self,
        tool_calls: Sequence[AnyProposedCall],
        provider_payload: Mapping[str, Any] | None = None,
        *,
        answered: Callable[[ToolMessage], object] | None = None,
    ) -> tuple[list[ToolMessage], str]:
        """Returns the tool messages for the next request, in the order of the calls, and its tool choice, which is
        `auto`.

        Async handlers run in a new event loop. `provider_payload`: used instead of the context's. `answered` is
        called with each message as soon as it is final, one for every call, also if a cancellation, a Ctrl-C or an
        error ends the batch."""
        proposed, finished = [_to_proposed_call(call) for call in tool_calls], list[ToolExecResult]()
        report = _reporter(finished, answered)
        try:
            answers = self.runner.exec_many_sync(proposed, ctx=self.tool_context, answered=report)
        except LoopSignal as signal:
            signal.tool_messages = _messages(finished)
            raise
        return self._messages_or_raise(answers, provider_payload)

    async def execute_async(
        self,
        tool_calls: Sequence[AnyProposedCall],
        provider_payload: Mapping[str, Any] | None = None,
        *,
        answered: Callable[[ToolMessage], object] | None = None,
    ) -> tuple[list[ToolMessage], str]:
        """Does the same as `execute` within an event loop, with `def` handlers in threads."""
        proposed, finished = [_to_proposed_call(call) for call in tool_calls], list[ToolExecResult]()
        report = _reporter(finished, answered)
        try:
            answers = await self.runner.exec_many(proposed, ctx=self.tool_context, answered=report)
        except LoopSignal as signal:
            signal.tool_messages = _messages(finished)
            raise
        return self._messages_or_raise(answers, provider_payload)

    def _messages_or_raise(
        self, answers: Sequence[ToolExecResult], provider_payload: Mapping[str, Any] | None
    ) -> tuple[list[ToolMessage], str]:
        for answer in answers:
            if answer.error_code is ToolErrorCode.DEADLINE_EXCEEDED:
                over = self._out_of_time(answer, provider_payload)
                over.tool_messages = _messages(answers)
                raise over
        return list(_messages(answers)), "auto"

    def _out_of_time(self, answer: ToolExecResult, provider_payload: Mapping[str, Any] | None) -> PromptEvaluationError:
        deadline = self.tool_context.deadline
        known = {} if deadline is None else {"deadline_expires_at": deadline.expires_at.isoformat()}
        return PromptEvaluationError(
            f"There was no time left for {answer.record.name}.",
            prompt_name=self.prompt_name,
            phase="tool",
            provider_payload={**(provider_payload or self.provider_payload or {}), **known},
        )


def _messages(answers: Sequence[ToolExecResult]) -> tuple[ToolMessage, ...]:
    return tuple({"role": "tool", "tool_call_id": a.tool_call_id, "content": a.content} for a in answers)


def _reporter(
    finished: list[ToolExecResult], answered: Callable[[ToolMessage], object] | None
) -> Callable[[ToolExecResult], object]:
    """Returns a function that stores an answer and passes its message on."""

    def report(answer: ToolExecResult) -> None:
        finished.append(answer)
        if answered is not None:
            answered(*_messages([answer]))

    return report


def _to_proposed_call(call: AnyProposedCall) -> ProposedCall | tuple[str, str, RawArgs]:
    if isinstance(call, Mapping):
        function = call.get("function") or {}
        return call.get("id", ""), function.get("name", ""), function.get("arguments") or "{}"
    if isinstance(call, tuple) or not hasattr(call, "function"):
        return call
    return call.id, call.function.name, call.function.arguments or "{}"
