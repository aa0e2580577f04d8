"""The errors of prompts, and the two messages that a handler may send to the loop around it.

PromptError                          section_path, dataclass_type, placeholder: the place of the fault ├──
PromptValidationError            written wrongly: found when the template or the section is made ├──
PromptRenderError                cannot be rendered with these parameters and this session ├── OutputParseError
the model's answer does not have the form that the prompt asks for └── VisibilityExpansionRequired      render again
with these sections open (a LoopSignal) PromptEvaluationError                the evaluation ends: no time, no budget,
no answer (a LoopSignal)
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
    """A prompt that cannot be rendered: parameters are missing, or a predicate or a section's own code raised."""

    code = "prompt_render"


class OutputParseError(PromptError, ValueError):
    """An answer that does not fit the prompt's output type. `fields` are phrases such as `steps[2].id is required`,
    made of declared names, so the model may see them."""

    code = "output_parse"

    def __init__(self, message: str, *, dataclass_type: type | None = None, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message, dataclass_type=dataclass_type)
        self.fields = fields


class PromptEvaluationError(LoopSignal, RuntimeError):
    """Ends an evaluation of a prompt. `phase`: the step at which it ended; `provider_payload`: what the provider
    sent, or what explains the end."""

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

    `section_keys`: the requested sections, as dotted paths; `reason`: the model's reason."""

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
