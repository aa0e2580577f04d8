"""How tools read in a prompt."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field
from tests.prompts.example_prompts import Ask, Found, a_tool

from demiurge.prompts.tools_block import examples_text, tools_block
from demiurge.tools import Tool, ToolContext, ToolEffect, ToolExample, ToolResult


class Aliased(BaseModel):
    word: str = Field(alias="theWord")


@dataclass(frozen=True)
class Rendered:
    text: str

    def render(self) -> str:
        return self.text


def block(*tools: Tool[object, object]) -> str:
    return tools_block(tools, {tool.name: examples_text(tool) for tool in tools})


def test_there_is_no_block_without_tools() -> None:
    assert block() == ""


def test_a_tool_is_its_name_its_words_and_its_effect_where_it_is_milder_than_it_could_be() -> None:
    mild = a_tool("mild", effect=ToolEffect.READ_ONLY)
    assert block(a_tool(), mild) == "Tools:\n\n- `look_up`: Looks it up.\n- `mild` (read_only): Looks it up."


def test_lines_of_a_description_stay_in_their_item() -> None:
    assert block(a_tool(description="One.\nTwo.")).endswith("- `look_up`: One.\n  Two.")


def test_an_example_shows_what_is_sent_and_what_the_model_is_told() -> None:
    def read(params: Aliased, *, context: ToolContext) -> ToolResult[list[Rendered]]:
        raise NotImplementedError

    example = ToolExample(" Two. ", Aliased(theWord="x"), [Rendered("1"), Rendered("2")])
    tool = Tool[Aliased, list[Rendered]](name="read", description="Reads.", handler=read, examples=(example,))
    assert examples_text(tool) == '- Example: Two.\n  - input: `{"theWord":"x"}`\n  - output: `[1,2]`'


def test_an_example_without_parameters_or_result() -> None:
    def ping(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise NotImplementedError

    tool = Tool[None, None](
        name="ping", description="Pings.", handler=ping, examples=(ToolExample("Once.", None, None),)
    )
    assert examples_text(tool) == "- Example: Once.\n  - input: `{}`"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "\n    ```\n    a\n    b\n    ```"),
        ("`a`", "\n    ```\n    `a`\n    ```"),
        ("a\n````\nb", "\n    `````\n    a\n    ````\n    b\n    `````"),
        (" a", "\n    ```\n     a\n    ```"),
        ("a\n\nb", "\n    ```\n    a\n    \n    b\n    ```"),
    ],
)
def test_an_example_output_can_not_leave_its_code_fence(text: str, shown: str) -> None:
    def read(params: Ask, *, context: ToolContext) -> ToolResult[Rendered]:
        raise NotImplementedError

    example = ToolExample("E.", Ask("x"), Rendered(text))
    tool = Tool[Ask, Rendered](name="read", description="Reads.", handler=read, examples=(example,))
    assert examples_text(tool).endswith(f"  - output:{shown}")


def test_examples_come_in_their_order() -> None:
    examples = tuple(ToolExample(f"{word}.", Ask(word), Found(word)) for word in "cab")
    lines = block(a_tool(examples=examples)).splitlines()
    assert [line for line in lines if "Example" in line] == [f"  - Example: {word}." for word in "cab"]


def test_an_example_leaves_out_what_the_schema_does_not_know() -> None:
    """A model is never shown a null that the tool's schema has no place for."""

    @dataclass(frozen=True)
    class Part:
        name: str
        note: str | None = None

    @dataclass(frozen=True)
    class Order:
        parts: list[Part]
        extra: dict[str, Any]
        due: str | None = None

    def order(params: Order, *, context: ToolContext) -> ToolResult[None]:
        return ToolResult("ordered")

    example = ToolExample[Order, None]("One part.", Order([Part("bolt"), Part("nut", "M4")], {"a": None}), None)
    tool = Tool[Order, None](name="order", description="Orders.", handler=order, examples=(example,))
    shown = examples_text(tool)
    assert '{"parts":[{"name":"bolt"},{"name":"nut","note":"M4"}],"extra":{"a":null}}' in shown
