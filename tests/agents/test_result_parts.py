"""A loop in memory: a tool's progress while it runs, and its images in the next request."""

from __future__ import annotations

from tests.wire.test_attachments import PNG

from demiurge import ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.agents import AgentLoop
from demiurge.models.scripted import ScriptedModel, call
from demiurge.tools import Image, ToolProgress
from demiurge.tools.events import ToolCallResult, ToolCallStart
from demiurge.wire import ToolOutput


@tool(effect=ToolEffect.READ_ONLY)
def plot(*, context: ToolContext) -> ToolResult[None]:
    """Plot."""
    context.progress(1, 2, "half")
    return ToolResult("One plot.", parts=[Image(data=PNG, name="plot.png")])


async def test_a_turn_shows_progress_and_sends_the_image_back() -> None:
    model = ScriptedModel([call("plot", call_id="c1"), "A dot."])
    runner = ToolRunner([plot], policy=ToolPolicy(("plot",)))
    loop = AgentLoop(model, runner, provider="openai-responses", model_name="m")
    async with loop.run("Plot it.") as run:
        events = [event async for event in run]
    assert run.turn.text == "A dot."
    shown = [event for event in events if isinstance(event, ToolCallStart | ToolProgress | ToolCallResult)]
    assert [type(event) for event in shown] == [ToolCallStart, ToolProgress, ToolCallResult]
    assert shown[1] == ToolProgress("c1", 1, 2, "half")
    output = model.requests[1].items[-1]
    assert output == ToolOutput("c1", "One plot.", images=(Image("image/png", PNG, "plot.png"),))
    assert output in run.turn.items
