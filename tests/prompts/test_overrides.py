"""Other words for sections and tools: which are applied, which are refused, and how it is said."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prompts.example_prompts import EXAMPLE, Guest, a_tool, section, template

from demiurge.prompts import (
    InMemoryOverrides,
    MarkdownSection,
    Prompt,
    PromptDescriptor,
    PromptOverride,
    PromptTemplate,
    PromptValidationError,
    SectionOverride,
    ToolOverride,
)
from demiurge.tools import ToolPolicy, ToolRunner

OLD_HASH = "sha256:" + "0" * 64


def desk(body: str = "Be kind to $name.", **tool: Any) -> PromptTemplate[Any]:
    locked = section(
        "locked", "Never change.", accepts_overrides=False, tools=[a_tool("fixed", accepts_overrides=False)]
    )
    kind = MarkdownSection[Guest]
    return template(section("top", "Top.", children=[section("tone", body, kind, tools=[a_tool(**tool)]), locked]))


TONE = ("top", "tone")
NOW = Prompt(desk()).descriptor


def store_of(*sections: SectionOverride, tools: tuple[ToolOverride, ...] = ()) -> InMemoryOverrides:
    store = InMemoryOverrides()
    store.put(NOW, PromptOverride("hotel", "desk", sections=sections, tools=tools))
    return store


def rendered(store: InMemoryOverrides, made: PromptTemplate[Any] | None = None, tag: str = "latest") -> Any:
    return Prompt(made or desk(), store, tag).bind(Guest("$Ada")).render()


def refusal_of(part: SectionOverride | ToolOverride) -> PromptValidationError:
    """What `put` says of an override with just this part."""
    sections = (part,) if isinstance(part, SectionOverride) else ()
    tools = (part,) if isinstance(part, ToolOverride) else ()
    with pytest.raises(PromptValidationError) as caught:
        store_of(*sections, tools=tools)
    return caught.value


def test_a_descriptor_has_the_parts_and_their_hashes() -> None:
    assert [part.path for part in NOW.sections] == [("top",), TONE, ("top", "locked")]
    assert [(part.name, part.path, part.params) for part in NOW.tools] == [
        ("look_up", TONE, ("words",)),
        ("fixed", ("top", "locked"), ("words",)),
    ]
    assert [part.accepts_overrides for part in NOW.sections] == [True, True, False]
    assert [part.accepts_overrides for part in NOW.tools] == [True, False]


def test_a_hash_follows_the_words_and_nothing_else() -> None:
    def hashes(made: PromptTemplate[Any]) -> tuple[Any, Any]:
        found = Prompt(made).descriptor
        return found.section(TONE).content_hash, found.tool("look_up").contract_hash  # type: ignore[union-attr]

    now = hashes(desk())
    assert hashes(desk(body="\n    Be kind to $name.\n  ")) == now
    assert hashes(desk(examples=(EXAMPLE,), accepts_overrides=False)) == now
    assert hashes(desk(body="Be kind.")) == (Prompt(desk(body="Be kind.")).descriptor.sections[1].content_hash, now[1])
    assert hashes(desk(body="Be kind."))[0] != now[0]
    assert hashes(desk(description="Finds it."))[1] != now[1]


def test_a_section_reads_in_the_overrides_words() -> None:
    found = rendered(store_of(NOW.section_override(TONE, "\n  Be brief, $name ($nights).\n")))
    assert "### 1.1. Tone (top.tone)\n\nBe brief, $Ada (1).\n\nTools:" in found.text
    assert "Be kind" not in found.text
    assert found.ignored_overrides == ()


def test_a_tool_has_the_overrides_words_and_another_spec_hash() -> None:
    original = Prompt(desk()).bind(Guest("Ada")).render().tools[0]
    found = rendered(store_of(tools=(NOW.tool_override("look_up", "Finds it.", {"words": "One word."}),)))
    tool = found.tools[0]
    assert "- `look_up`: Finds it." in found.text
    assert (tool.description, tool.spec.description, tool.bound.spec) == ("Finds it.", "Finds it.", tool.spec)
    assert tool.spec.input_schema["properties"]["words"]["description"] == "One word."
    assert original.spec.input_schema["properties"]["words"]["description"] == "The words to look for."
    assert tool.spec.spec_hash != original.spec.spec_hash
    assert found.tool_param_descriptions == {"look_up": {"words": "One word."}}
    runner = ToolRunner(found.tools, policy=ToolPolicy(("look_up",)))
    assert runner.exec_sync("look_up", {"words": "bolt"}).content == 'Found.\n\n{"text":"bolt"}'
    assert runner.exec_sync("look_up", {"word": "bolt"}).error_code == "validation"


def test_a_tool_may_get_a_description_or_those_of_parameters_alone() -> None:
    words = rendered(store_of(tools=(NOW.tool_override("look_up", "Finds it."),))).tools[0].spec
    params = rendered(store_of(tools=(NOW.tool_override("look_up", None, {"words": "One."}),))).tools[0].spec
    assert (words.description, words.input_schema) == ("Finds it.", a_tool().spec.input_schema)
    assert (params.description, params.input_schema["properties"]["words"]["description"]) == ("Looks it up.", "One.")


def test_the_reworded_tool_is_made_once() -> None:
    made = Prompt(desk(), store_of(tools=(NOW.tool_override("look_up", "Finds it."),))).bind(Guest("Ada"))
    assert made.render().tools[0] is made.render().tools[0]


def test_an_override_of_other_words_is_stale_left_out_logged_and_listed(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(NOW.section_override(TONE, "Be brief."), tools=(NOW.tool_override("look_up", "Finds it."),))
    with caplog.at_level(logging.WARNING, "demiurge.prompts"):
        found = rendered(store, desk(body="Be very kind to $name.", description="Looks it all up."))
    assert "Be very kind to $Ada." in found.text
    assert "- `look_up`: Looks it all up." in found.text
    faults = [(fault.kind, fault.name, fault.section_path, fault.fault) for fault in found.ignored_overrides]
    assert faults == [("section", "top.tone", TONE, "stale"), ("tool", "look_up", TONE, "stale")]
    assert [record.getMessage() for record in caplog.records] == [
        f"prompt hotel/desk: an override is left out: {fault.message}" for fault in found.ignored_overrides
    ]


def test_a_part_that_went_away_or_was_locked_later_is_left_out() -> None:
    store = store_of(NOW.section_override(TONE, "Be brief."), tools=(NOW.tool_override("look_up", "Finds it."),))
    other = template(section("top", "Top.", children=[section("other")]))
    assert [fault.fault for fault in Prompt(other, store).render().ignored_overrides] == ["unknown", "unknown"]
    locked = desk(accepts_overrides=False)
    faults = rendered(store, locked).ignored_overrides
    assert [(fault.name, fault.fault) for fault in faults] == [("look_up", "refused")]


def test_a_placeholder_that_went_away_makes_an_override_invalid() -> None:
    """The text is the same, its parameters are not."""
    kind = MarkdownSection[Guest]
    store = InMemoryOverrides()
    before = Prompt(template(section("a", "Hello.", kind))).descriptor
    store.put(before, PromptOverride("hotel", "desk", sections=(before.section_override(("a",), "Hello $name."),)))
    found = Prompt(template(section("a", "Hello.")), store).render()
    assert [fault.fault for fault in found.ignored_overrides] == ["invalid"]
    assert found.text.endswith("Hello.")


def test_an_override_of_a_locked_section_or_tool_is_refused_when_it_is_set() -> None:
    section_hash, tool_hash = NOW.sections[2].content_hash, NOW.tools[1].contract_hash
    error = refusal_of(SectionOverride(("top", "locked"), section_hash, "Change."))
    assert (error.section_path, error.code) == (("top", "locked"), "override_refused")
    error = refusal_of(ToolOverride("fixed", tool_hash, "Change."))
    assert (error.section_path, error.placeholder, error.code) == (("top", "locked"), "fixed", "override_refused")
    with pytest.raises(PromptValidationError, match="does not accept"):
        NOW.section_override(("top", "locked"), "Change.")
    with pytest.raises(PromptValidationError, match="does not accept"):
        NOW.tool_override("fixed", "Change.")


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (SectionOverride(("nowhere",), OLD_HASH, "x"), "override_unknown"),
        (SectionOverride(TONE, OLD_HASH, "x"), "override_stale"),
        (SectionOverride(TONE, NOW.sections[1].content_hash, " \n"), "override_invalid"),
        (SectionOverride(TONE, NOW.sections[1].content_hash, "$surname"), "override_invalid"),
        (SectionOverride(TONE, NOW.sections[1].content_hash, "$5"), "override_invalid"),
        (SectionOverride(TONE, NOW.sections[1].content_hash, "a\u202eb"), "override_invalid"),
        (ToolOverride("nothing", OLD_HASH, "x"), "override_unknown"),
        (ToolOverride("look_up", OLD_HASH, "x"), "override_stale"),
        (ToolOverride("look_up", NOW.tools[0].contract_hash, " "), "override_invalid"),
        (ToolOverride("look_up", NOW.tools[0].contract_hash, "x" * 201), "override_invalid"),
        (ToolOverride("look_up", NOW.tools[0].contract_hash, "a\u200bb"), "override_invalid"),
        (ToolOverride("look_up", NOW.tools[0].contract_hash, None, {"word": "x"}), "override_invalid"),
        (ToolOverride("look_up", NOW.tools[0].contract_hash, None, {"words": " "}), "override_invalid"),
        (ToolOverride("look_up", NOW.tools[0].contract_hash, None, {"words": "a\u202e"}), "override_invalid"),
    ],
)
def test_a_value_that_cannot_be_applied_is_refused_when_it_is_set(part: Any, code: str) -> None:
    assert refusal_of(part).code == code


def test_an_override_is_of_one_prompt_and_names_a_part_once() -> None:
    with pytest.raises(PromptValidationError, match="hotel/desk"):
        InMemoryOverrides().put(NOW, PromptOverride("hotel", "bar"))
    twice = NOW.section_override(TONE, "x")
    with pytest.raises(PromptValidationError):
        PromptOverride("hotel", "desk", sections=(twice, twice))
    with pytest.raises(PromptValidationError):
        PromptOverride("hotel", "desk", tools=(ToolOverride("a", OLD_HASH), ToolOverride("a", OLD_HASH)))
    for names in (("../hotel", "desk", "latest"), ("hotel", "..", "latest"), ("hotel", "desk", "a/b")):
        with pytest.raises(PromptValidationError):
            PromptOverride(*names)


def test_a_tag_picks_the_override() -> None:
    store = InMemoryOverrides()
    store.put(NOW, PromptOverride("hotel", "desk", "trial", (NOW.section_override(TONE, "Be brief."),)))
    assert "Be kind" in rendered(store).text
    assert "Be brief." in rendered(store, tag="trial").text


def test_a_section_without_a_text_of_its_own_can_not_be_overridden() -> None:
    class Own(MarkdownSection[None]):
        def original_body(self) -> Any:
            return None

    made = Prompt(template(section("a", kind=Own))).descriptor
    assert made == PromptDescriptor("hotel", "desk")
    with pytest.raises(PromptValidationError, match="no text to override"):
        made.section_override(("a",), "x")


@given(st.text(min_size=1).filter(lambda text: text.isprintable() and text.strip() != ""), st.text(max_size=20))
def test_an_override_is_applied_exactly_when_its_hash_is_of_the_present_text(body: str, other: str) -> None:
    before, after = (template(section("a", text.replace("$", "$$"))) for text in (body, other))
    store = InMemoryOverrides()
    was, now = Prompt(before).descriptor, Prompt(after).descriptor
    store.put(was, PromptOverride("hotel", "desk", sections=(was.section_override(("a",), "New words."),)))
    found = Prompt(after, store).render()
    is_same = was.sections == now.sections
    assert ("New words." in found.text.split("\n\n")) is (is_same or other.strip() == "New words.")
    assert len(found.ignored_overrides) == (0 if is_same else 1)
