"""Prompts: what a model is told, and the tools it may use there, in one place: sections hold their tools.

Imports only what is below it: `sessions`, `filesystems`, `tools`, `values`, `errors`.
"""

from __future__ import annotations

from demiurge.prompts.errors import (
    OutputParseError,
    PromptError,
    PromptEvaluationError,
    PromptRenderError,
    PromptValidationError,
    VisibilityExpansionRequired,
)
from demiurge.prompts.executor import ToolExecutionContext, ToolExecutor
from demiurge.prompts.markdown import MarkdownSection
from demiurge.prompts.output import StructuredOutput
from demiurge.prompts.overrides import (
    IgnoredOverride,
    PromptDescriptor,
    PromptOverride,
    SectionDescriptor,
    SectionOverride,
    ToolDescriptor,
    ToolOverride,
)
from demiurge.prompts.overrides_store import FolderOverrides, InMemoryOverrides, PromptOverridesStore
from demiurge.prompts.prompt import Prompt
from demiurge.prompts.rendered import RenderedPrompt
from demiurge.prompts.section import Section
from demiurge.prompts.template import PromptTemplate
from demiurge.prompts.visibility import (
    ClearVisibilityOverride,
    SectionPath,
    SectionVisibility,
    SetVisibilityOverride,
    VisibilityOverrides,
    fold_visibility,
    set_visibility,
)

__all__ = [
    "ClearVisibilityOverride",
    "FolderOverrides",
    "IgnoredOverride",
    "InMemoryOverrides",
    "MarkdownSection",
    "OutputParseError",
    "Prompt",
    "PromptDescriptor",
    "PromptError",
    "PromptEvaluationError",
    "PromptOverride",
    "PromptOverridesStore",
    "PromptRenderError",
    "PromptTemplate",
    "PromptValidationError",
    "RenderedPrompt",
    "Section",
    "SectionDescriptor",
    "SectionOverride",
    "SectionPath",
    "SectionVisibility",
    "SetVisibilityOverride",
    "StructuredOutput",
    "ToolDescriptor",
    "ToolExecutionContext",
    "ToolExecutor",
    "ToolOverride",
    "VisibilityExpansionRequired",
    "VisibilityOverrides",
    "fold_visibility",
    "set_visibility",
]
