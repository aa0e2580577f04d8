"""What can go wrong with a prompt, and the two things that a handler may say to the loop around it.

PromptError                          section_path, dataclass_type, placeholder: where it is
├── PromptValidationError            written wrongly: found when the template or the section is made
├── PromptRenderError                can't be rendered with these parameters and this session
├── OutputParseError                 the model's answer is not what the prompt asked for
└── VisibilityExpansionRequired      render again with these sections open (a LoopSignal)
PromptEvaluationError                the turn is over: no time, no budget, no answer (a LoopSignal)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from demiurge.tools.errors import LoopSignal, PromptError, PromptValidationError

if TYPE_CHECKING:
    from demiurge.prompts.visibility import SectionPath, SectionVisibility

__all__ = [
    "EvaluationPhase",
    "OutputParseError",
    "PromptError",
    "PromptEvaluationError",
    "PromptRenderError",
    "PromptValidationError",
    "VisibilityExpansionRequired",
]

EvaluationPhase: TypeAlias = Literal["request", "response", "tool", "budget"]


class PromptRenderError(PromptError):
    """A prompt that can't be rendered: parameters are missing, a predicate or a section's own code raised."""

    code = "prompt_render"


class OutputParseError(PromptError, ValueError):
    """An answer that breaks the prompt's output type. `fields` are phrases such as `steps[2].id is required`, made
    of declared names, so they may be told to the model."""

    code = "output_parse"

    def __init__(self, message: str, *, dataclass_type: type | None = None, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message, dataclass_type=dataclass_type)
        self.fields = fields


class PromptEvaluationError(LoopSignal, RuntimeError):
    """An evaluation of a prompt that ends here. `phase`: what it was at;
    `provider_payload`: what the provider said, or what explains the end."""

    code = "prompt_evaluation"

    def __init__(
        self,
        message: str,
        *,
        prompt_name: str,
        phase: EvaluationPhase,
        provider_payload: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.prompt_name = prompt_name
        self.phase = phase
        self.provider_payload = provider_payload


class VisibilityExpansionRequired(PromptError, LoopSignal):
    """The model asks to see sections in full: render again with `requested_overrides`.

    `section_keys`: what it asked for, as dotted paths; `reason`: why, in its words."""

    code = "visibility_expansion"

    def __init__(
        self,
        message: str,
        *,
        requested_overrides: Mapping[SectionPath, SectionVisibility],
        reason: str,
        section_keys: tuple[str, ...],
    ) -> None:
        super().__init__(message)
        self.requested_overrides = MappingProxyType(dict(requested_overrides))
        self.reason = reason
        self.section_keys = section_keys
