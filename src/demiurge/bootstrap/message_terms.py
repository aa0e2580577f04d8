"""The terms of a message beside its words: the model that answers it, the limit of its answers, its tools and their
choice, and the catalog of prompt tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from demiurge.apps.demiurge import MAX_TOKENS
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_fields import require_fields
from demiurge.bootstrap.chat_state import ChatSettings
from demiurge.bootstrap.models import Choice
from demiurge.bootstrap.toolset import MessageTools, brought_tools, message_tools
from demiurge.errors import InvalidValue
from demiurge.models.providers import provider as provider_row
from demiurge.registry.catalog_text import PROMPT_TOOL
from demiurge.values.refs import Ref
from demiurge.wire.items import ToolChoice

__all__ = ["MessageTerms"]


@dataclass(frozen=True, slots=True)
class MessageTerms:
    """The terms of one message, as `Chat.send` describes them. `choice` is the chat's own model."""

    choice: Choice
    max_tokens: int | None = None
    tools: Sequence[str] | None = None
    tools_ref: Ref | None = None
    tool_choice: ToolChoice | None = None
    skip_tool_catalog: bool = False
    model: str | None = None
    provider: str | None = None

    def __post_init__(self) -> None:
        limit = self.max_tokens
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidValue("is a number of tokens, at least 1", path="max_tokens")
        if self.tools is not None and self.tools_ref is not None:
            raise InvalidValue("goes without `tools`: a message has one toolset", path="tools_ref")

    @property
    def answers(self) -> Choice:
        """The model that answers: the one named, else the default model of the provider named, else the chat's."""
        if self.provider is None:
            return self.choice._replace(model=self.model or self.choice.model)
        row = provider_row(self.provider)
        return Choice(row.name, self.model or row.default_model)

    async def fields(self, backend: Backend, chat: ChatSettings | None) -> dict[str, Any]:
        """Returns the fields of `demiurge/UserMessage@1` beside the words, for a message to this chat. Raises as
        `Chat.send`."""
        info, answers = await backend.read.info(), self.answers
        lacking = info.get("lacking", ())
        if self.max_tokens is not None:
            require_fields("max_tokens", lacking)
        is_given = self.max_tokens is not None
        limit = self.max_tokens if is_given or chat is None else chat.own_max_tokens
        may_have_catalog = (
            not self.skip_tool_catalog
            and (self.tools is None or bool(self.tools))
            and provider_row(answers.provider).prompt_catalog
        )
        has_catalog = may_have_catalog and bool(info.get("prompt_catalog"))
        offered = await self._offered(backend, chat, answers, has_catalog=has_catalog)
        own = {"own_max_tokens": True if limit is not None else None}
        settings = {
            "model": answers.model,
            "provider": answers.provider,
            "max_tokens": limit or info["settings"].get("max_tokens", MAX_TOKENS),
            **({} if "demiurge/UserMessage@1.own_max_tokens" in lacking else own),
            **offered.fields,
        }
        reads_catalog = PROMPT_TOOL in offered.names
        if not has_catalog and not (may_have_catalog and reads_catalog):
            return settings
        return {**settings, "catalog_ref": await backend.run.prompt_catalog(reads_catalog)}

    async def _offered(
        self, backend: Backend, chat: ChatSettings | None, answers: Choice, *, has_catalog: bool
    ) -> MessageTools:
        if self.tools_ref is not None:
            return await brought_tools(backend, self.tools_ref, self.tool_choice)
        own = chat.own_tools_ref if chat is not None else None
        return await message_tools(
            backend,
            own,
            self.tools,
            answers.provider,
            self.tool_choice,
            has_catalog=has_catalog,
            skips_catalog=self.skip_tool_catalog,
        )
