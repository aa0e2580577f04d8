"""One turn of the loop: ask the model, run its calls, send the results, and ask again.

Invariant: only calls of a finished answer run. Each goes through the runner and is answered, in the order in which the
model proposed them; events of an unfinished answer are passed on and not stored. `items` is consistent at every moment
at which the turn may break off: it holds an answer with its calls, and a call with its result unless a person has to
decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from demiurge.agents.answer_form import BAD_ANSWER, ResponseForm
from demiurge.agents.conversation import ConversationState, read
from demiurge.agents.turn import Turn, TurnStatus
from demiurge.errors import DemiurgeError, UsageError
from demiurge.models.json_tools import ask_model
from demiurge.models.port import LanguageModel
from demiurge.models.prices import cost_of
from demiurge.models.providers import provider
from demiurge.models.request import GenerateRequest
from demiurge.tools.capabilities import Clock
from demiurge.tools.catalog import ToolCatalog
from demiurge.tools.context import ToolContext
from demiurge.tools.errors import DeadlineExceededError, ToolErrorCode
from demiurge.tools.events import AiEvent, AssistantFinal, Status, TextDelta, UsageReport
from demiurge.tools.ids import canonical_id
from demiurge.tools.limits.budget import BudgetTracker, TokenUsage
from demiurge.tools.limits.deadline import Deadline
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.record import ToolExecResult
from demiurge.tools.runner import ToolRunner
from demiurge.tools.spec import ToolSpec
from demiurge.values.clock import Entropy, SystemClock, new_id
from demiurge.values.money import add_micros, dollars_text, whole_micros
from demiurge.wire.arguments import sound_calls
from demiurge.wire.items import (
    Completion,
    FinishReason,
    Item,
    Message,
    Text,
    ToolCall,
    ToolChoice,
    ToolOutput,
    Usage,
)
from demiurge.wire.result_parts import output_of
from demiurge.wire.rounds import (
    EMPTY_ANSWER,
    call_identity,
    empty_answer,
    is_empty,
    next_choice,
    refuse,
    too_many_rounds,
)

__all__ = ["Exchange", "LoopSettings"]

Emit = Callable[[AiEvent], object]

_LEFT_TO_THE_RUNNER = (ToolErrorCode.POLICY_DENIED, ToolErrorCode.INVALID_JSON)


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings that all turns of a loop share. `request` has no items yet; `preface` comes before the items of the
    conversation."""

    model: LanguageModel
    runner: ToolRunner
    request: GenerateRequest
    preface: tuple[Item, ...]
    max_tool_rounds: int
    ctx: ToolPolicyContext | ToolContext | None
    entropy: Entropy
    form: ResponseForm | None = None


class Exchange:
    """One turn over `items`. Calls `emit` with each event, in order. Play it once."""

    def __init__(self, settings: LoopSettings, items: tuple[Item, ...], emit: Emit) -> None:
        self.items = items
        self._settings = settings
        self._emit = emit
        self._runner = settings.runner.heard_by(emit)
        self._resources = settings.runner.resources(settings.ctx)
        self._usages: list[Usage | None] = []
        self._costs: list[Decimal | int | None] = []

    async def play(self) -> Turn:
        """Runs until the model answers in words or a person has to decide. Raises a DemiurgeError if it cannot
        continue, and a handler's LoopSignal."""
        catalog = self._runner.catalog(self._settings.ctx)
        while True:
            state = read(self.items)
            self.items = state.items
            if state.open_calls:
                approvals = await self._answer(state, catalog)
                if approvals is not None:
                    return replace(self.turn("awaiting_approval", finish_reason="tool_calls"), approvals=approvals)
            _stop_if_cancelled()
            completion = await self._answered(catalog.specs(), self._choice(state.rounds))
            self.items = (*self.items, *completion.items)
            if not completion.tool_calls:
                self._emit(AssistantFinal(completion.text))
                return self.turn("done", completion.text, completion.finish_reason)

    async def _answered(self, specs: tuple[ToolSpec, ...], choice: ToolChoice | None) -> Completion:
        """Returns the model's next answer. One in words that has not the form asked for is asked for once more, and is
        no part of the conversation. Raises DemiurgeError (`empty_answer`, `bad_answer`)."""
        unfit: tuple[Item, ...] = ()
        while True:
            completion = await self._ask(specs, choice, unfit)
            _stop_if_cancelled()
            if is_empty(completion):
                text = empty_answer(completion.finish_reason, self._settings.request.max_tokens)
                raise DemiurgeError(text, code=EMPTY_ANSWER)
            form = self._settings.form
            problem = form.problem(completion.text) if form is not None and not completion.tool_calls else ""
            if not problem:
                return completion
            if unfit or completion.finish_reason in ("length", "content_filter"):
                cut = f" It was cut at {self._settings.request.max_tokens:,} tokens (max_tokens)."
                why = f"The model's answer has not the form that response_format asks for: {problem}."
                raise DemiurgeError(why + (cut if completion.finish_reason == "length" else ""), code=BAD_ANSWER)
            self._emit(Status("thinking", "The answer has not the form that was asked for; the model is asked again."))
            ask = f"Your answer has not the form that was asked for: {problem}. Answer again, with that JSON alone."
            unfit = (*completion.items, Message("user", (Text(ask),)))

    def failed(self, code: str, message: str) -> Turn:
        """Returns the turn as failed at this point."""
        return replace(self.turn("failed", finish_reason="error"), error_code=str(code), message=message)

    def turn(self, status: TurnStatus, text: str = "", finish_reason: FinishReason | None = None) -> Turn:
        usages = [usage for usage in self._usages if usage is not None]
        costs = [cost for cost in self._costs if cost is not None]
        cost = add_micros(costs) if costs and len(costs) == len(self._costs) else None
        return Turn(
            status,
            self.items,
            text,
            rounds=len(self._usages),
            usage=_total(usages) if usages else None,
            cost_micros=whole_micros(cost) if cost is not None else None,
            cost_usd=dollars_text(cost) if cost is not None else None,
            finish_reason=finish_reason,
        )

    def _choice(self, rounds: int) -> ToolChoice | None:
        if rounds == 0:
            return self._settings.request.tool_choice
        choice = next_choice(rounds, self._settings.max_tool_rounds)
        if choice is None:
            why = too_many_rounds(self._settings.max_tool_rounds)
            raise DemiurgeError(why, code=ToolErrorCode.ROUNDS_EXCEEDED)
        return choice

    async def _answer(self, state: ConversationState, catalog: ToolCatalog) -> tuple[str, ...] | None:
        """Runs or refuses the open calls. Returns the ids of approvals that a person has to decide, None if there are
        no such calls.

        However the batch ends, the answers so far are in `items`, and a call that waits for a person has none.
        """
        outputs: dict[str, ToolOutput] = {}
        waiting: dict[str, str] = {}

        def answered(result: ToolExecResult) -> None:
            call_id = result.tool_call_id
            if result.error_code is ToolErrorCode.APPROVAL_REQUIRED:
                waiting[call_id] = result.approval_id or ""
            else:
                outputs[call_id] = output_of(result)

        refused = self._refused(state, frozenset(catalog.tools))
        try:
            ctx = self._context(state, catalog)
            await self._runner.exec_many(state.open_calls, ctx=ctx, refused=refused, answered=answered)
        finally:
            self.items = state.with_outputs(outputs)
        return tuple(waiting[call.id] for call in state.open_calls if call.id in waiting) if waiting else None

    def _context(self, state: ConversationState, catalog: ToolCatalog) -> ToolPolicyContext | ToolContext | None:
        """Returns the caller of the open calls, who is tainted if the model has read text of an untrusted tool."""
        ctx = self._settings.ctx
        caller = ctx.caller if isinstance(ctx, ToolContext) else ctx or ToolPolicyContext()
        if caller.tainted or not state.has_read(
            lambda tool: (spec := catalog.get(tool)) is not None and spec.untrusted
        ):
            return ctx
        caller = replace(caller, tainted=True)
        return replace(ctx, caller=caller) if isinstance(ctx, ToolContext) else caller

    def _refused(self, state: ConversationState, shown: frozenset[str]) -> dict[int, ToolErrorCode]:
        """Returns error codes by position among the open calls; the runner refuses other calls itself."""
        seen = set(state.seen)
        codes: dict[str, ToolErrorCode | None] = {}
        for call in state.calls:
            identity = call_identity(call.name, call.arguments_json)
            codes[call.id] = refuse(
                state.rounds,
                self._settings.max_tool_rounds,
                denied=canonical_id(call.name) not in shown,
                invalid=call.invalid,
                repeated=identity in seen,
            )
            seen.add(identity)
        refused = ((index, codes[call.id]) for index, call in enumerate(state.open_calls))
        return {index: code for index, code in refused if code is not None and code not in _LEFT_TO_THE_RUNNER}

    async def _ask(
        self, specs: tuple[ToolSpec, ...], choice: ToolChoice | None, unfit: tuple[Item, ...] = ()
    ) -> Completion:
        """Returns the model's next answer, whose call ids are unique in this conversation. `unfit`: an answer that was
        not taken, and why."""
        settings, asked_ns = self._settings, self._resources.get(Clock, SystemClock()).now_ns()
        answer_id = new_id("answer", settings.entropy)
        request = replace(
            settings.request,
            items=(*settings.preface, *self.items, *unfit),
            specs=specs,
            tool_choice=choice,
            idempotency_key=answer_id,
        )
        preview = _Preview(self._emit)
        limit = asyncio.timeout(self._time_left())
        try:
            async with limit:
                completion = await ask_model(
                    settings.model, request, on_event=preview.take, max_rounds=settings.max_tool_rounds
                )
        except TimeoutError:
            if not limit.expired():
                raise
            self._time_left()
            raise DeadlineExceededError("There is no time left for this turn.") from None
        finally:
            preview.over = True
        preview.complete(completion.text)
        self._account(answer_id, request, completion, asked_ns)
        taken = [item.id for item in self.items if isinstance(item, ToolCall)]
        return sound_calls(completion, answer_id.encode(), taken)

    def _time_left(self) -> float | None:
        """Returns the seconds left, None for no limit. Raises DeadlineExceededError, BudgetExceededError."""
        deadline, tracker = self._resources.get(Deadline), self._resources.get(BudgetTracker)
        if tracker is not None:
            tracker.check()
        ends = [deadline, tracker.budget.deadline if tracker is not None else None]
        left = min((end.remaining() for end in ends if end is not None), default=None)
        if left is not None and left <= timedelta():
            raise DeadlineExceededError("There is no time left for this turn.")
        return None if left is None else left.total_seconds()

    def _account(self, answer_id: str, request: GenerateRequest, completion: Completion, asked_ns: int) -> None:
        usage, cost = completion.usage, _cost(request, completion, asked_ns)
        self._usages.append(usage)
        self._costs.append(cost)
        if usage is None:
            return
        micros = whole_micros(cost) if cost is not None else None
        self._emit(report(usage, completion.model or request.model, micros))
        tracker = self._resources.get(BudgetTracker)
        if tracker is not None:
            tracker.record_cumulative(answer_id, TokenUsage(usage.prompt, usage.completion, usage.cached), micros)


class _Preview:
    """Passes on the events of an unfinished answer, except those that end the turn or belong to calls."""

    def __init__(self, emit: Emit) -> None:
        self.over = False
        self._emit = emit
        self._shown: list[str] = []

    def take(self, event: AiEvent) -> None:
        if self.over or not isinstance(event, TextDelta | Status):
            return
        if isinstance(event, TextDelta):
            self._shown.append(event.delta)
        self._emit(event)

    def complete(self, text: str) -> None:
        """Emits the part of the text that was not shown: all of it if the model does not stream."""
        shown = "".join(self._shown)
        if text != shown and text.startswith(shown):
            self._emit(TextDelta(text[len(shown) :]))


def _cost(request: GenerateRequest, completion: Completion, asked_ns: int) -> Decimal | int | None:
    try:
        row = provider(request.provider)
    except UsageError:
        return None  # not a provider of the table: the caller's own model
    return cost_of(completion, row, model=request.model, base_url=request.base_url, at_ns=asked_ns).micros


def _stop_if_cancelled() -> None:
    """Raises if the task was cancelled: a model or a handler may have swallowed the cancellation, and nothing more must
    begin."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def report(usage: Usage, model: str | None, cost_micros: int | None) -> UsageReport:
    return UsageReport(usage.prompt, usage.completion, usage.cached, usage.reasoning, model, cost_micros)


def _total(usages: list[Usage]) -> Usage:
    return Usage(
        prompt=sum(usage.prompt for usage in usages),
        completion=sum(usage.completion for usage in usages),
        cached=sum(usage.cached for usage in usages),
        reasoning=sum(usage.reasoning for usage in usages),
        cache_written=sum(usage.cache_written for usage in usages),
    )
