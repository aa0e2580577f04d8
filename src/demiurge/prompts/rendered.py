"""The result of rendering a prompt: text for the model, and the tools that belong to this text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, cast

from demiurge.prompts.errors import OutputParseError
from demiurge.prompts.output import OutputContainer, StructuredOutput
from demiurge.prompts.overrides import IgnoredOverride, PromptDescriptor
from demiurge.prompts.template import OutputT
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.limits.deadline import Deadline

__all__ = ["RenderedPrompt"]


@dataclass(frozen=True)
class RenderedPrompt(Generic[OutputT]):
    """A rendered prompt. `tools`: those of the sections that are shown in full, in declaration order and with their
    overridden descriptions, then the prompt's own tools that open summaries; only these may run.
    `tool_param_descriptions`: the overridden descriptions of parameters, by tool and parameter; the tools' schemas
    already contain them. `ignored_overrides`: stored overrides that were not applied, and why."""

    text: str
    descriptor: PromptDescriptor
    tools: tuple[Tool[Any, Any], ...] = ()
    structured_output: StructuredOutput | None = None
    deadline: Deadline | None = None
    tool_param_descriptions: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    ignored_overrides: tuple[IgnoredOverride, ...] = ()

    @property
    def output_type(self) -> type | None:
        """The class of the answer, or of its items."""
        return self.structured_output.output_type if self.structured_output is not None else None

    @property
    def container(self) -> OutputContainer | None:
        """`object` for one answer, `array` for a list of them; None for an answer in prose."""
        return self.structured_output.container if self.structured_output is not None else None

    @property
    def allow_extra_keys(self) -> bool:
        """True if the answer may have keys that its type does not have."""
        return self.structured_output is not None and self.structured_output.allow_extra_keys

    def parse_output(self, text: str | bytes) -> OutputT:
        """Returns the model's final answer as the prompt's output type. Raises OutputParseError, also for a prompt
        without an output type."""
        if self.structured_output is None:
            raise OutputParseError("The prompt asks for no structured answer.")
        return cast("OutputT", self.structured_output.parse(text))
