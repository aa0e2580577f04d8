"""A prompt: a template with its parameters, rendered before each turn.

The same template, parameters, overrides, session state and visibility give the same bytes and the same tools.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Generic, Self

from demiurge.prompts.errors import PromptRenderError, PromptValidationError
from demiurge.prompts.expansion import expansion_tools
from demiurge.prompts.overrides import (
    IgnoredOverride,
    PromptDescriptor,
    PromptOverride,
    ToolOverride,
    describe,
    with_override,
)
from demiurge.prompts.overrides_store import PromptOverridesStore
from demiurge.prompts.placeholders import tidy
from demiurge.prompts.rendered import RenderedPrompt
from demiurge.prompts.rendering import OverrideWords, Rendering
from demiurge.prompts.section import checked_key
from demiurge.prompts.template import OutputT, PromptTemplate
from demiurge.prompts.visibility import SectionPath, SectionVisibility, VisibilityOverrides, dotted
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.context import NullSession
from demiurge.tools.limits.deadline import Deadline
from demiurge.values.article import with_article

__all__ = ["Prompt"]

_LOG = logging.getLogger("demiurge.prompts")


class Prompt(Generic[OutputT]):
    """`Prompt(template).bind(params).render(session=session)`. With an `overrides_store`, it uses the texts that the
    store has for this prompt under `overrides_tag`."""

    def __init__(
        self,
        template: PromptTemplate[OutputT],
        overrides_store: PromptOverridesStore | None = None,
        overrides_tag: str = "latest",
    ) -> None:
        if not isinstance(template, PromptTemplate):
            raise TypeError(f"a Prompt is made of a PromptTemplate, not of {with_article(type(template).__name__)}")
        self.template = template
        self.overrides_store = overrides_store
        self.overrides_tag = checked_key(overrides_tag, "tag")
        self._params: Mapping[type, Any] = {}
        self._overridden_tools: dict[str, tuple[ToolOverride, Tool[Any, Any]]] = {}

    @property
    def ns(self) -> str:
        return self.template.ns

    @property
    def key(self) -> str:
        return self.template.key

    @property
    def name(self) -> str:
        """The template's name, or `ns/key` if it has none."""
        return self.template.name or f"{self.ns}/{self.key}"

    @property
    def tools(self) -> tuple[Tool[Any, Any], ...]:
        """All tools that the template declares, shown or not."""
        return self.template.tools

    @property
    def params(self) -> tuple[Any, ...]:
        """The bound parameters."""
        return tuple(self._params.values())

    @cached_property
    def descriptor(self) -> PromptDescriptor:
        """The descriptor that overrides are written against."""
        return describe(self.template)

    def bind(self, *params: Any) -> Self:
        """Binds parameters for the sections that take them, by their class; a value replaces one of the same class
        that was bound before. Raises PromptValidationError, and then nothing is bound."""
        given: dict[type, Any] = {}
        for value in params:
            kind = type(value)
            if kind not in self.template.params_types:
                known = ", ".join(sorted(taken.__name__ for taken in self.template.params_types)) or "nothing"
                message = (
                    f"prompt {self.name!r}: no section takes {with_article(kind.__name__)}; what they take: {known}"
                )
                raise PromptValidationError(message, dataclass_type=kind, placeholder="params")
            if kind in given:
                message = f"prompt {self.name!r}: two {kind.__name__} are given"
                raise PromptValidationError(message, dataclass_type=kind, placeholder="params")
            given[kind] = value
        self._params = {**self._params, **given}
        return self

    def render(
        self,
        *,
        session: Any = None,
        visibility_overrides: Mapping[SectionPath, SectionVisibility] | None = None,
        deadline: Deadline | None = None,
    ) -> RenderedPrompt[OutputT]:
        """Returns text and tools for these parameters and this session. `visibility_overrides`: by path, with
        precedence over the session's. `deadline`: passed on. Raises PromptRenderError."""
        session = NullSession() if session is None else session
        override = self._override()
        ignored = self.descriptor.ignored(override)
        words = self._words(override, ignored)
        rendering = Rendering(
            template=self.template,
            params=self._params,
            session=session,
            visibility=self._visibility(session, visibility_overrides),
            words=words,
        )
        parts = rendering.parts()
        for fault in ignored:
            _LOG.warning("prompt %s: an override is left out: %s", self.name, fault.message)
        return RenderedPrompt(
            text=parts.text,
            descriptor=self.descriptor,
            tools=(*parts.tools, *expansion_tools(rendering, parts.summarized)),
            structured_output=self.template.structured_output,
            deadline=deadline,
            tool_param_descriptions=words.params,
            ignored_overrides=ignored,
        )

    def filesystem(self) -> Any:
        """Returns the attribute `filesystem` of the first section that has one; None if none has."""
        found = (getattr(node.section, "filesystem", None) for node in self.template.walk())
        return next((files for files in found if files is not None), None)

    def _override(self) -> PromptOverride:
        found = None
        if self.overrides_store is not None:
            found = self.overrides_store.get(self.ns, self.key, self.overrides_tag)
        return PromptOverride(self.ns, self.key, self.overrides_tag) if found is None else found

    def _words(self, override: PromptOverride, ignored: tuple[IgnoredOverride, ...]) -> OverrideWords:
        left_out = {(fault.kind, fault.name) for fault in ignored}
        sections = [part for part in override.sections if ("section", dotted(part.path)) not in left_out]
        tools = [part for part in override.tools if ("tool", part.name) not in left_out]
        return OverrideWords(
            bodies={part.path: tidy(part.body) for part in sections},
            tools={part.name: self._tool(part) for part in tools},
            params={part.name: part.param_descriptions for part in tools if part.param_descriptions},
        )

    def _tool(self, override: ToolOverride) -> Tool[Any, Any]:
        """Returns the tool with the override's descriptions. It is cached, because it takes as long as making a
        tool."""
        kept = self._overridden_tools.get(override.name)
        if kept is None or kept[0] != override:
            original = next(tool for tool in self.tools if tool.name == override.name)
            kept = self._overridden_tools[override.name] = (override, with_override(original, override))
        return kept[1]

    def _visibility(
        self, session: Any, given: Mapping[SectionPath, SectionVisibility] | None
    ) -> Mapping[SectionPath, SectionVisibility]:
        """Returns the session's settings, replaced by `given` where it has a path. Raises PromptRenderError for a
        path that the prompt does not have."""
        known = self.template.by_path
        for path in given or ():
            if path not in known:
                message = f"prompt {self.name!r} has no section {path!r}; a path is a tuple of keys"
                raise PromptRenderError(message, section_path=path)
        kept = session[VisibilityOverrides].latest()
        return {**(kept.by_path() if kept is not None else {}), **(given or {})}
