"""The agent loop in a program of your own: a message in, events as they happen, a turn out.

It holds no conversation. Items go in and come out as a tuple, so two turns can't get in each other's way and history
is the caller's to keep, to shorten and to store.
"""

from __future__ import annotations

from collections.abc import Iterable

from demiurge.agents.conversation import ConversationState, read
from demiurge.agents.exchange import Exchange, Terms
from demiurge.agents.run import AgentRun
from demiurge.agents.turn import Turn
from demiurge.errors import InvalidValue
from demiurge.models.port import LanguageModel
from demiurge.models.request import GenerateRequest
from demiurge.tools.context import ToolContext
from demiurge.tools.ids import MAX_CALL_ID_BYTES, canonical_call_id
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.runner import ToolRunner
from demiurge.values.clock import Entropy, SystemEntropy
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.items import Item, Message, Text, TextFormat, ToolChoice

__all__ = ["AgentLoop"]


class AgentLoop:
    """Asks `model`, runs the calls of its answers with `runner`, and asks again, by the rules of a world's chat.

    `system`: said before every conversation. `max_tool_rounds`, at least 0: so many answers of a turn may have their
    calls run. `tool_choice` is for the first request of a turn. `ctx`: who asks, as for `ToolRunner.exec`; a Deadline
    and a BudgetTracker there, or among the runner's resources, bound the whole turn and count the model's tokens. The
    other settings are those of one request to the model: `temperature` as decimal text, `timeout_s` for each
    answer."""

    def __init__(
        self,
        model: LanguageModel,
        runner: ToolRunner,
        *,
        provider: str,
        model_name: str,
        system: str | None = None,
        max_tool_rounds: int = 8,
        tool_choice: ToolChoice | None = None,
        temperature: str | None = None,
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
            model_name,
            (),
            tool_choice=tool_choice,
            temperature=temperature,
            max_tokens=max_tokens,
            response_format=response_format,
            api_key=api_key,
            base_url=base_url,
            timeout_s=timeout_s,
        )
        preface = (Message("system", (Text(system),)),) if system else ()
        source = entropy if entropy is not None else SystemEntropy()
        self._terms = Terms(model, runner, request, preface, max_tool_rounds, ctx, source)

    def run(self, said: str | Iterable[Item], history: Iterable[Item] = ()) -> AgentRun:
        """One turn, to be read event by event. `said`: a person's words, or items; `history`: what came before them.

        A conversation that ends with open calls (`awaiting_approval`) goes on with those, one that ends with results
        with the model. Raises InvalidValue for one that ends with the model's own words, and for open calls that their
        ids don't tell apart (`tools.ids`)."""
        spoken = (Message("user", (Text(mend_surrogates(said)),)),) if isinstance(said, str) else tuple(said)
        standing = read((*history, *spoken))
        if not standing.is_waiting:
            raise InvalidValue("there is nothing for the model to answer", path="said")
        _check_ids(standing)
        return AgentRun(lambda emit: Exchange(self._terms, standing.items, emit))

    async def complete(self, said: str | Iterable[Item], history: Iterable[Item] = ()) -> Turn:
        """One turn, without its events. A turn that failed is returned, not raised."""
        async with self.run(said, history) as run:
            async for _ in run:
                pass
        return run.turn


def _check_ids(standing: ConversationState) -> None:
    """Results are paired with calls by id alone; a call whose result went to another would be run again."""
    ids = [call.id for call in standing.calls]
    if len(set(ids)) < len(ids):
        raise InvalidValue("two calls of the last answer have the same id", path="history")
    if any(canonical_call_id(call.id) != call.id for call in standing.open_calls):
        message = f"an open call has an id of 1 to {MAX_CALL_ID_BYTES} bytes, all of them printable"
        raise InvalidValue(message, path="history")
