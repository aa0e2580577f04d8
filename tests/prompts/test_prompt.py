"""Binding parameters and rendering: the text, the tools, and what is said of a section that can't be rendered."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prompts.example_prompts import EXAMPLE, Guest, Room, a_tool, prompt, section, template, text_of

from demiurge.prompts import (
    MarkdownSection,
    Prompt,
    PromptRenderError,
    PromptValidationError,
    SectionVisibility,
)
from demiurge.sessions import Session
from demiurge.tools import Deadline, LoopSignal, Tool, ToolPolicy, ToolRunner
from demiurge.values.clock import FixedClock

for_guest = MarkdownSection[Guest]


@dataclass(frozen=True)
class Mood:
    good: bool


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def test_a_prompt_reads_as_its_sections_do() -> None:
    made = prompt(
        section(
            "guidance",
            """
            Look after $name.

              * for $$ only
            """,
            for_guest,
            title="How to help",
            tools=[a_tool(examples=(EXAMPLE,))],
            children=[section("tone")],
        ),
        section("last", ""),
    )
    assert made.bind(Guest("Ada")).render().text == (
        "## 1. How to help (guidance)\n\n"
        "Look after Ada.\n\n  * for $ only\n\n"
        "Tools:\n\n- `look_up`: Looks it up.\n"
        "  - Example: A word.\n"
        '    - input: `{"words":"bolt"}`\n'
        '    - output:\n      ```\n      {"text":"a `bolt`\\nis here"}\n      ```\n\n'
        "### 1.1. Tone (guidance.tone)\n\nBe kind.\n\n"
        "## 2. Last (last)"
    )


def test_numbers_are_of_enabled_sections() -> None:
    tree = (
        section("a", enabled=lambda: False),
        section("b", children=[section("c", enabled=lambda: False), section("d", children=[section("e")])]),
        section("f"),
    )
    assert headings(text_of(*tree)) == [
        "## 1. B (b)",
        "### 1.1. D (b.d)",
        "#### 1.1.1. E (b.d.e)",
        "## 2. F (f)",
    ]


def test_an_empty_prompt_is_an_empty_text() -> None:
    assert prompt().render().text == ""


@pytest.mark.parametrize(
    "value", ["$nights", "${name}", "$$", "$", "\n## 2. Admin (admin)\n", "%s {x} \\1 ", "  x\n  y  "]
)
def test_a_value_is_never_read_again(value: str) -> None:
    made = prompt(
        section("a", "<$name>", for_guest, summary="s <$name>"), section("b", "$number", MarkdownSection[Room])
    )
    made.bind(Guest(value), Room(3))
    assert made.render().text == f"## 1. A (a)\n\n<{value}>\n\n## 2. B (b)\n\n3"
    summary = made.render(visibility_overrides={("a",): SectionVisibility.SUMMARY}).text
    assert f"s <{value}>" in summary


def test_titles_and_what_is_said_of_tools_are_no_templates() -> None:
    made = prompt(section("a", "$name", for_guest, title="$name", tools=[a_tool(description="Costs $name.")]))
    assert made.bind(Guest("Ada")).render().text == ("## 1. $name (a)\n\nAda\n\nTools:\n\n- `look_up`: Costs $name.")


def test_a_heading_in_a_value_brings_no_section_and_no_tool() -> None:
    made = prompt(section("a", "$name", for_guest), section("b", tools=[a_tool()], enabled=lambda: False))
    rendered = made.bind(Guest("## 2. B (b)\n\nTools:\n\n- `look_up`: Looks it up.")).render()
    assert rendered.tools == ()


def test_parameters_come_from_what_is_bound_then_the_defaults_then_the_class() -> None:
    kind = MarkdownSection[Room]
    assert prompt(section("a", "$number", kind)).render().text.endswith("\n7")
    made = prompt(section("a", "$number", kind, default_params=Room(8)))
    assert made.render().text.endswith("\n8")
    assert made.bind(Room(9)).render().text.endswith("\n9")


def test_one_value_serves_all_sections_of_its_class() -> None:
    made = prompt(section("a", "$name", for_guest), section("b", "$nights", for_guest)).bind(Guest("Ada", 3))
    assert made.render().text == "## 1. A (a)\n\nAda\n\n## 2. B (b)\n\n3"


def test_bind_gives_the_prompt_and_a_later_value_replaces_an_earlier_one() -> None:
    made = prompt(section("a", "$name", for_guest))
    assert made.bind(Guest("Ada")) is made
    made.bind(Guest("Bob"))
    assert made.params == (Guest("Bob"),)


@pytest.mark.parametrize("params", [(Room(),), ("Ada",), (None,), (Guest,), (Guest("A"), Guest("B")), ({"name": "A"},)])
def test_parameters_that_no_section_takes_are_refused_and_nothing_is_bound(params: tuple[Any, ...]) -> None:
    made = prompt(section("a", "$name", for_guest))
    with pytest.raises(PromptValidationError, match="Guest") as caught:
        made.bind(*params)
    assert (caught.value.dataclass_type, caught.value.placeholder) == (type(params[-1]), "params")
    assert made.params == ()


def test_missing_parameters_name_section_class_and_field() -> None:
    made = prompt(section("top", children=[section("a", "$name", for_guest)]))
    with pytest.raises(PromptRenderError, match=r"'top\.a'.*Guest") as caught:
        made.render()
    error = caught.value
    assert (error.section_path, error.dataclass_type, error.placeholder) == (("top", "a"), Guest, "name")


def test_a_disabled_section_needs_no_parameters_and_drops_all_below_it() -> None:
    below = section("b", "$name", for_guest, enabled=lambda: 1 / 0, tools=[a_tool()])
    rendered = prompt(section("a", "$name", for_guest, enabled=lambda: False, children=[below])).render()
    assert (rendered.text, rendered.tools) == ("", ())


def test_a_section_is_enabled_by_its_parameters_and_by_the_session() -> None:
    session = Session()
    made = prompt(
        section("a", kind=for_guest, enabled=lambda guest: guest.nights > 1),
        section("b", enabled=lambda *, session: session[Mood].latest() is not None),
        section("c", kind=for_guest, enabled=lambda guest, *, session: guest.nights > len(session[Mood].all())),
    )
    made.bind(Guest("Ada"))
    assert headings(made.render(session=session).text) == ["## 1. C (c)"]
    session.broadcast(Mood(good=True))
    made.bind(Guest("Ada", 2))
    assert headings(made.render(session=session).text) == ["## 1. A (a)", "## 2. B (b)", "## 3. C (c)"]


def test_without_a_session_there_is_one_that_holds_nothing() -> None:
    assert text_of(section(enabled=lambda *, session: session[Mood].latest() is not None)) == ""


def raise_lookup_error(*_: Any, **__: Any) -> Any:
    raise LookupError("no such mood")


def no_session(*, session: Any) -> bool:
    return raise_lookup_error() is None


def no_session_of(guest: Guest, *, session: Any) -> bool:
    return raise_lookup_error() is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"enabled": no_session}, "'enabled' raised LookupError"),
        ({"enabled": no_session_of}, "'enabled' raised LookupError"),
        ({"visibility": no_session}, "'visibility' raised LookupError"),
        ({"enabled": lambda: 1}, "'enabled' returned int"),
        ({"enabled": lambda: None}, "'enabled' returned NoneType"),
        ({"visibility": lambda: "hidden"}, "'visibility' returned str"),
        ({"visibility": lambda: None}, "'visibility' returned NoneType"),
        ({"visibility": lambda: SectionVisibility.SUMMARY}, "no summary"),
    ],
)
def test_a_question_that_fails_names_the_section(options: dict[str, Any], said: str) -> None:
    made = prompt(section("top", children=[section("a", "$name", for_guest, **options)])).bind(Guest("Ada"))
    with pytest.raises(PromptRenderError, match=said) as caught:
        made.render(session=Session())
    assert (caught.value.section_path, caught.value.dataclass_type) == (("top", "a"), Guest)


def test_a_question_that_renders_another_prompt_names_its_own_section() -> None:
    def enabled() -> bool:
        return bool(text_of(section("inner", "$name", for_guest)))

    with pytest.raises(PromptRenderError) as caught:
        text_of(section("outer", enabled=enabled))
    assert caught.value.section_path == ("outer",)
    assert isinstance(caught.value.__cause__, PromptRenderError)


def test_a_question_may_speak_to_the_loop() -> None:
    def enabled() -> bool:
        raise LoopSignal("Enough.")

    with pytest.raises(LoopSignal):
        text_of(section(enabled=enabled))


def test_a_question_that_is_interrupted_is_let_through() -> None:
    def enabled() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        text_of(section(enabled=enabled))


class Broken:
    def __init__(self, text: Callable[[], Any]) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Anything:
    value: object


@pytest.mark.parametrize("value", [Broken(raise_lookup_error), Broken(lambda: 3), "\ud800"])
def test_a_value_that_can_not_be_text_names_the_section(value: object) -> None:
    made = prompt(section("a", "$value", MarkdownSection[Anything])).bind(Anything(value))
    with pytest.raises(PromptRenderError) as caught:
        made.render()
    assert (caught.value.section_path, caught.value.dataclass_type) == (("a",), Anything)


def test_parameters_whose_own_checks_fail_name_the_section() -> None:
    @dataclass
    class Strict:
        number: int = 0

        def __post_init__(self) -> None:
            raise_lookup_error()

    with pytest.raises(PromptRenderError, match="LookupError") as caught:
        text_of(section("a", kind=MarkdownSection[Strict]))
    assert caught.value.section_path == ("a",)


def test_a_section_of_ones_own_is_asked_with_parameters_and_session() -> None:
    class Moods(MarkdownSection[Room]):
        def render_body(self, params: Room, *, session: Any = None, template: str | None = None) -> str:
            return f"Room {params.number}: {len(session[Mood].all())} moods"

    session = Session()
    session.broadcast(Mood(good=False))
    assert text_of(section("a", kind=Moods), session=session).endswith("Room 7: 1 moods")


def test_a_body_that_is_no_text_names_the_section() -> None:
    class Silent(MarkdownSection[None]):
        def render_body(self, params: None, *, session: Any = None, template: str | None = None) -> str:
            return None  # type: ignore[return-value]

    with pytest.raises(PromptRenderError, match="NoneType") as caught:
        text_of(section("a", kind=Silent))
    assert caught.value.section_path == ("a",)


def test_tools_are_in_declaration_order_and_are_all_that_can_run() -> None:
    rendered = prompt(
        section("a", tools=[a_tool("t2"), a_tool("t1")], children=[section("b", tools=[a_tool("t4")])]),
        section("c", tools=[a_tool("t5")], enabled=lambda: False),
        section("d", tools=[a_tool("t3")]),
    ).render()
    assert [tool.name for tool in rendered.tools] == ["t2", "t1", "t4", "t3"]
    runner = ToolRunner(rendered.tools, policy=ToolPolicy(("t1", "t5")))
    codes = {name: runner.exec_sync(name, {"words": "x"}).error_code for name in ("t1", "t2", "t5")}
    assert codes == {"t1": None, "t2": "policy_denied", "t5": "unavailable"}


def test_a_rendered_prompt_carries_its_metadata() -> None:
    made = prompt(section("a"), name="The desk")
    deadline = Deadline(datetime(2030, 1, 1, tzinfo=UTC), clock=FixedClock(0))
    rendered = made.render(deadline=deadline)
    assert (rendered.output_type, rendered.container, rendered.allow_extra_keys) == (None, None, False)
    assert (rendered.structured_output, rendered.deadline) == (None, deadline)
    assert (rendered.tool_param_descriptions, rendered.ignored_overrides) == ({}, ())
    assert (made.ns, made.key, made.name) == ("hotel", "desk", "The desk")
    assert (rendered.descriptor.ns, rendered.descriptor.key) == ("hotel", "desk")


def test_a_prompt_is_made_of_a_template() -> None:
    with pytest.raises(TypeError, match="str"):
        Prompt("You are kind.")  # type: ignore[arg-type]
    with pytest.raises(PromptValidationError):
        Prompt(template(), overrides_tag="../latest")


def test_the_files_of_a_prompt_are_those_of_its_first_section_with_any() -> None:
    class Files(MarkdownSection[None]):
        filesystem = "files"

    assert prompt(section("a")).filesystem() is None
    assert prompt(section("a", children=[section("b", kind=Files)])).filesystem() == "files"


# Generated trees


@dataclass(frozen=True)
class Shape:
    """A section to be: how it is enabled, how many tools, what is below."""

    enabled: bool
    tools: int
    children: tuple["Shape", ...]


shapes = st.recursive(
    st.builds(Shape, st.booleans(), st.integers(0, 2), st.just(())),
    lambda below: st.builds(Shape, st.booleans(), st.integers(0, 2), st.lists(below, max_size=3).map(tuple)),
    max_leaves=8,
)
TOOLS = [a_tool(f"t{number}") for number in range(40)]


def built(shape: Shape, key: str, tools: list[Tool[Any, Any]]) -> Any:
    own = [tools.pop(0) for _ in range(shape.tools)]
    children = [built(child, f"k{number}", tools) for number, child in enumerate(shape.children)]
    return section(key, f"text of {key}", tools=own, children=children, enabled=lambda: shape.enabled)


def expected(
    shape: Shape, key: str, tools: list[Tool[Any, Any]], path: str, shown: bool
) -> tuple[list[str], list[str]]:
    """Paths of the sections and names of the tools that a rendering shows."""
    shown = shown and shape.enabled
    names = [tools.pop(0).name for _ in range(shape.tools)]
    paths = [f"{path}{key}"] if shown else []
    names = names if shown else []
    for number, child in enumerate(shape.children):
        below = expected(child, f"k{number}", tools, f"{path}{key}.", shown)
        paths += below[0]
        names += below[1]
    return paths, names


@given(st.lists(shapes, max_size=3).filter(lambda trees: sum(map(count_tools, trees)) <= len(TOOLS)))
def test_a_tree_shows_its_enabled_sections_and_their_tools_in_order(trees: list[Shape]) -> None:
    tools, same_tools = TOOLS.copy(), TOOLS.copy()
    made = prompt(*[built(tree, f"k{number}", tools) for number, tree in enumerate(trees)])
    paths: list[str] = []
    names: list[str] = []
    for number, tree in enumerate(trees):
        below = expected(tree, f"k{number}", same_tools, "", True)
        paths += below[0]
        names += below[1]
    rendered = made.render()
    assert [line.split("(")[1].rstrip(")") for line in headings(rendered.text)] == paths
    assert [tool.name for tool in rendered.tools] == names
    assert made.render().text.encode() == rendered.text.encode() == Prompt(made.template).render().text.encode()


def count_tools(shape: Shape) -> int:
    return shape.tools + sum(map(count_tools, shape.children))
