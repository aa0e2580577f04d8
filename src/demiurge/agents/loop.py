"""The agent loop for your own program: a message in, events while it runs, a turn out.

The loop stores no conversation. Items are passed in and returned as a tuple, so two turns cannot interfere, and the
caller stores and shortens the history.
"""

from __future__ import annotations

from collections.abc import Iterable

from demiurge.agents.answer_form import ResponseForm
from demiurge.agents.conversation import ConversationState, read
from demiurge.agents.exchange import Exchange, LoopSettings
from demiurge.agents.run import AgentRun
from demiurge.agents.turn import Turn
from demiurge.errors import InvalidValue
from demiurge.models.port import LanguageModel, name_of
from demiurge.models.providers import PYTHON
from demiurge.models.request import GenerateRequest, temperature_text
from demiurge.tools.context import ToolContext
from demiurge.tools.ids import MAX_CALL_ID_BYTES, canonical_call_id
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.runner import ToolRunner
from demiurge.values.clock import Entropy, SystemEntropy
from demiurge.values.durations import checked_duration
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.items import Item, Message, Text, TextFormat, ToolChoice

__all__ = ["AgentLoop"]


class AgentLoop:
    """Asks `model`, runs the calls of its answers with `runner`, and asks again, by the rules of a world's chat.

    `provider`, `model_name`: which model a ModelClient asks; a model that is an object of your own needs neither.
    `system_prompt`: what the model is told first. `max_tool_rounds`, at least 0: the number of answers in a turn whose
    calls may run. `tool_choice` is for the first request of a turn. `ctx`: the caller, as for `ToolRunner.exec`; a
    Deadline and a BudgetTracker there, or among the runner's resources, limit the whole turn and count the model's
    tokens. `response_format`: the answer in words must be JSON of this form; another answer is asked for once more, and
    then fails the turn (`bad_answer`). The other settings are those of one request to the model: `temperature` 0 to 2,
    `timeout_s` for each answer. Raises InvalidValue, Unavailable (a `response_format` needs the extra `foreign`).
    """

    def __init__(
        self,
        model: LanguageModel,
        runner: ToolRunner,
        *,
        provider: str = PYTHON,
        model_name: str | None = None,
        system_prompt: str | None = None,
        max_tool_rounds: int = 8,
        tool_choice: ToolChoice | None = None,
        temperature: float | str | None = None,
        max_tokens: int = 4096,
        response_format: TextFormat | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_s: float = 600.0,
        ctx: ToolPolicyContext | ToolContext | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if max_tool_rounds < 0:
            raise InvalidValue("must be at least 0", path="max_tool_rounds")
        request = GenerateRequest(
            provider,
            model_name if model_name is not None else name_of(model),
            (),
            tool_choice=tool_choice,
            temperature=temperature_text(temperature) if temperature is not None else None,
            max_tokens=max_tokens,
            response_format=response_format,
            api_key=api_key,
            base_url=base_url,
            timeout_s=checked_duration(timeout_s, "timeout_s"),
        )
        form = ResponseForm.of(response_format) if response_format is not None else None
        preface = (Message("system", (Text(system_prompt),)),) if system_prompt else ()
        source = entropy if entropy is not None else SystemEntropy()
        self._settings = LoopSettings(model, runner, request, preface, max_tool_rounds, ctx, source, form)

    def run(self, message: str | Iterable[Item], history: Iterable[Item] = ()) -> AgentRun:
        """Starts one turn, whose events are read one by one. `message`: a person's text, or items; `history`: the items
        before it.

        A conversation that ends with open calls (`awaiting_approval`) continues with those, one that ends with results
        continues with the model. Raises InvalidValue for one that ends with the model's own words, and for open calls
        whose ids are not distinct (`tools.ids`).
        """
        spoken = (Message("user", (Text(mend_surrogates(message)),)),) if isinstance(message, str) else tuple(message)
        state = read((*history, *spoken))
        if not state.is_waiting:
            raise InvalidValue("there is nothing for the model to answer", path="message")
        _check_ids(state)
        return AgentRun(lambda emit: Exchange(self._settings, state.items, emit))

    async def complete(self, message: str | Iterable[Item], history: Iterable[Item] = ()) -> Turn:
        """Runs one turn without its events. A failed turn is returned, not raised."""
        async with self.run(message, history) as run:
            async for _ in run:
                pass
        return run.turn


def _check_ids(state: ConversationState) -> None:
    """Raises InvalidValue unless ids tell calls apart: results are matched by id alone, and a call without its result
    would run again."""
    ids = [call.id for call in state.calls]
    if len(set(ids)) < len(ids):
        raise InvalidValue("two calls of the last answer have the same id", path="history")
    if any(canonical_call_id(call.id) != call.id for call in state.open_calls):
        message = f"an open call has an id of 1 to {MAX_CALL_ID_BYTES} bytes, all of them printable"
        raise InvalidValue(message, path="history")
