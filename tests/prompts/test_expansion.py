"""What a model is shown of a summarised section, and how it gets to see the rest."""

from typing import Any

import pytest
from tests.prompts.example_prompts import Guest, Room, a_tool, prompt, section

from demiurge.prompts import (
    MarkdownSection,
    Prompt,
    PromptRenderError,
    RenderedPrompt,
    SectionVisibility,
    VisibilityExpansionRequired,
    set_visibility,
)
from demiurge.sessions import Session
from demiurge.tools import ToolPolicy, ToolRunner

SUMMARY = SectionVisibility.SUMMARY
FULL = SectionVisibility.FULL


def names(rendered: RenderedPrompt[Any]) -> list[str]:
    return [tool.name for tool in rendered.tools]


def call(rendered: RenderedPrompt[Any], name: str, **arguments: Any) -> str:
    runner = ToolRunner(rendered.tools, policy=ToolPolicy(tuple(names(rendered))))
    return runner.exec_sync(name, arguments).content


def desk() -> Prompt[Any]:
    """A section that is open, one with a tool that is summarised, and one without that is."""
    deep = section("deep", "Deep inside.", summary="Deep.", visibility=SUMMARY)
    return prompt(
        section("open", tools=[a_tool("t1")]),
        section(
            "billing",
            "All about bills for $name.",
            MarkdownSection[Guest],
            summary="Bills of $name.",
            visibility=SUMMARY,
            children=[section("refunds", "Be slow.", tools=[a_tool("t2")])],
        ),
        section("style", "Write well.", summary="Style.", visibility=SUMMARY, children=[deep]),
    ).bind(Guest("Ada"))


def test_a_summarised_section_shows_its_summary_and_none_of_its_tools() -> None:
    rendered = desk().render()
    assert rendered.text.split("\n\n", 4)[4] == (
        "## 2. Billing (billing)\n\nBills of Ada.\n\n"
        "(This is a summary. For the whole section and its tools, call `open_sections` with the key `billing`.)\n\n"
        "## 3. Style (style)\n\nStyle.\n\n"
        "(This is a summary. For the whole section, call `read_section` with the key `style`.)"
    )
    assert names(rendered) == ["t1", "open_sections", "read_section"]


def test_the_tools_are_there_only_where_they_are_of_use() -> None:
    plain = section("a", summary="A.")
    tooled = section("b", summary="B.", tools=[a_tool()])
    made = prompt(plain, tooled)
    assert names(made.render()) == ["look_up"]
    assert names(made.render(visibility_overrides={("b",): SUMMARY})) == ["open_sections"]
    assert names(made.render(visibility_overrides={("a",): SUMMARY})) == ["look_up", "open_sections", "read_section"]


def test_opening_asks_the_loop_to_render_again() -> None:
    made = desk()
    with pytest.raises(VisibilityExpansionRequired) as caught:
        call(made.render(), "open_sections", section_keys=["billing", "billing"], reason="A refund.")
    signal = caught.value
    assert (signal.section_keys, signal.reason) == (("billing",), "A refund.")
    assert signal.requested_overrides == {("billing",): FULL}
    again = made.render(visibility_overrides=signal.requested_overrides)
    assert "All about bills for Ada." in again.text
    assert names(again) == ["t1", "t2", "open_sections", "read_section"]


def test_a_granted_expansion_can_be_kept_in_the_session() -> None:
    session = Session()
    made = desk()
    with pytest.raises(VisibilityExpansionRequired) as caught:
        call(made.render(session=session), "open_sections", section_keys=["style", "billing"], reason="All.")
    set_visibility(session, caught.value.requested_overrides)
    rendered = made.render(session=session)
    assert names(rendered) == ["t1", "t2", "open_sections", "read_section"]
    assert "Deep." in rendered.text
    assert "Deep inside." not in rendered.text


@pytest.mark.parametrize(("keys", "said"), [([], "at least one"), (["billing", "bills"], "no summarised section")])
def test_a_key_that_is_not_there_is_answered_with_those_that_are(keys: list[str], said: str) -> None:
    answer = call(desk().render(), "open_sections", section_keys=keys, reason="?")
    assert said in answer
    assert "billing, style" in answer
    for key in ("billing", "open", ""):
        assert "There are: style." in call(desk().render(), "read_section", section_key=key)


def test_reading_gives_the_section_and_all_below_it() -> None:
    answer = call(desk().render(), "read_section", section_key="style")
    assert answer == "## 3. Style (style)\n\nWrite well.\n\n### 3.1. Deep (style.deep)\n\nDeep inside."


def test_nothing_below_a_summarised_section_is_asked() -> None:
    below = section("b", "$name", MarkdownSection[Guest], enabled=lambda: 1 / 0)
    rendered = prompt(section("a", summary="A.", visibility=SUMMARY, children=[below])).render()
    assert "A." in rendered.text
    assert call(rendered, "read_section", section_key="a").endswith('"message":"The tool failed."}')


def test_visibility_may_depend_on_parameters_and_session() -> None:
    def visibility(room: Room, *, session: Any) -> SectionVisibility:
        return FULL if room.number > len(session[Room].all()) else SUMMARY

    made = prompt(section("a", "Full.", MarkdownSection[Room], summary="Short.", visibility=visibility))
    session = Session()
    assert "Full." in made.bind(Room(1)).render(session=session).text
    session.broadcast(Room())
    assert "Short." in made.render(session=session).text


def test_visibility_given_to_render_wins_over_the_session_and_the_session_over_the_section() -> None:
    session = Session()
    made = prompt(section("a", "Full.", summary="Short.", visibility=lambda: FULL))
    assert "Full." in made.render(session=session).text
    set_visibility(session, {("a",): SUMMARY, ("of", "another"): FULL})
    assert "Short." in made.render(session=session).text
    assert "Full." in made.render(session=session, visibility_overrides={("a",): FULL}).text


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(PromptRenderError) as caught:
        desk().render(visibility_overrides={("bills",): FULL})
    assert caught.value.section_path == ("bills",)


def test_a_section_without_a_summary_can_not_be_summarised() -> None:
    with pytest.raises(PromptRenderError, match="no summary") as caught:
        prompt(section("a")).render(visibility_overrides={("a",): SUMMARY})
    assert caught.value.section_path == ("a",)
