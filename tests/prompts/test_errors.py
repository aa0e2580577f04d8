"""The tree of errors, and what reaches the loop through a runner."""

from typing import Any

import pytest

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.prompts import (
    OutputParseError,
    PromptError,
    PromptEvaluationError,
    PromptRenderError,
    PromptValidationError,
    SectionPath,
    SectionVisibility,
    VisibilityExpansionRequired,
)
from demiurge.tools import LoopSignal, Tool, ToolContext, ToolPolicy, ToolResult, ToolRunner
from demiurge.tools.errors import PromptValidationError as OfTools


def test_prompt_errors_have_their_documented_base_classes() -> None:
    assert PromptValidationError is OfTools
    for kind, above in (
        (PromptValidationError, (PromptError, InvalidValue, ValueError)),
        (PromptRenderError, (PromptError, DemiurgeError)),
        (OutputParseError, (PromptError, ValueError)),
        (VisibilityExpansionRequired, (PromptError, LoopSignal)),
        (PromptEvaluationError, (LoopSignal, RuntimeError)),
    ):
        assert issubclass(kind, above[0])
        assert issubclass(kind, above[1:])


@pytest.mark.parametrize("kind", [PromptError, PromptValidationError, PromptRenderError])
def test_a_prompt_error_says_where_it_is(kind: Any) -> None:
    error = kind("No.", section_path=("a", "b"), dataclass_type=int, placeholder="x")
    assert (str(error), error.section_path, error.dataclass_type, error.placeholder) == ("No.", ("a", "b"), int, "x")
    bare = kind("No.")
    assert (bare.section_path, bare.dataclass_type, bare.placeholder) == (None, None, None)


SIGNALS = [
    VisibilityExpansionRequired(
        "Open.", requested_overrides={("a",): SectionVisibility.FULL}, reason="r", section_keys=("a",)
    ),
    PromptEvaluationError("Over.", prompt_name="desk", phase="tool", provider_payload={"id": 1}),
]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: type(signal).__name__)
def test_a_loop_signal_passes_through_a_runner(signal: LoopSignal) -> None:
    def say(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise signal

    tool = Tool[None, None](name="say", description="Says it.", handler=say)
    with pytest.raises(type(signal)) as caught:
        ToolRunner([tool], policy=ToolPolicy(("say",))).exec_sync("say", {})
    assert caught.value is signal


def test_an_expansion_signal_copies_the_requested_overrides() -> None:
    requested: dict[SectionPath, SectionVisibility] = {("a",): SectionVisibility.FULL}
    signal = VisibilityExpansionRequired("Open.", requested_overrides=requested, reason="r", section_keys=("a",))
    requested.clear()
    assert signal.requested_overrides == {("a",): SectionVisibility.FULL}
