"""weakincentives: the bridged tool that its adapters call: policies, a snapshot of the session, an event, reducers."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weakincentives.adapters import ProviderAdapter
from weakincentives.adapters._shared import create_bridged_tools
from weakincentives.prompt import (
    MarkdownSection,
    Prompt,
    PromptTemplate,
    SequentialDependencyPolicy,
    Tool,
    ToolContext,
    ToolResult,
)
from weakincentives.runtime import Session

PACKAGE = "weakincentives"
ARGS = '{"a": 2, "b": 3}'


@dataclass(slots=True, frozen=True)
class AddParams:
    a: int
    b: int


@dataclass(slots=True, frozen=True)
class AddResult:
    total: int

    def render(self) -> str:
        return str(self.total)


def add(params: AddParams, *, context: ToolContext) -> ToolResult[AddResult]:
    return ToolResult.ok(AddResult(params.a + params.b))


class Silent(ProviderAdapter[Any]):
    """A provider that nobody asks."""

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


async def bridged(handler: str, history: int) -> Callable[[], str]:
    """A session with `history` calls behind it."""
    tool = Tool[AddParams, AddResult](name="add", description="Add two integers.", handler=add)
    section = MarkdownSection(
        title="Tools",
        key="tools",
        template="Use add.",
        tools=(tool,),
        policies=(SequentialDependencyPolicy(dependencies={}),),
    )
    prompt: Prompt[Any] = Prompt(PromptTemplate(ns="bench", key="add", sections=(section,)))
    prompt.resources.__enter__()  # open as long as this process
    rendered = prompt.render()
    (run,) = create_bridged_tools(
        rendered.tools,
        session=Session(),
        adapter=Silent(),
        prompt=prompt,
        rendered_prompt=rendered,
        deadline=None,
        budget_tracker=None,
    )

    def call() -> str:
        return str(run(json.loads(ARGS))["content"][0]["text"])

    for _ in range(history):
        call()
    return call


ENTRIES = {"bridged": bridged}
