"""What a template finds when it is made, and where it says it is."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from tests.prompts.example_prompts import Ask, Guest, Room, a_tool, section, template

from demiurge.prompts import MarkdownSection, Prompt, PromptTemplate, PromptValidationError, SectionVisibility


class Model(BaseModel):
    name: str


@dataclass(frozen=True)
class LargerGuest(Guest):
    pass


def refusal_of(*sections: Any, **options: Any) -> tuple[tuple[str, ...] | None, type | None, str | None]:
    with pytest.raises(PromptValidationError) as caught:
        template(*sections, **options)
    return caught.value.section_path, caught.value.dataclass_type, caught.value.placeholder


def inside(child: Any) -> Any:
    return section("top", children=[child])


def test_a_tool_name_is_used_once_in_the_whole_tree() -> None:
    first = section("a", children=[section("b", tools=[a_tool()])])
    assert refusal_of(first, section("c", tools=[a_tool()])) == (("c",), Ask, "look_up")
    assert refusal_of(section("a", tools=[a_tool(), a_tool()])) == (("a",), Ask, "look_up")


def test_the_names_of_the_prompts_own_tools_are_taken() -> None:
    for name in ("open_sections", "read_section"):
        assert refusal_of(inside(section("a", tools=[a_tool(name)]))) == (("top", "a"), Ask, name)


def test_two_sections_in_one_place_have_two_keys() -> None:
    assert refusal_of(section("a"), section("A")) == (("a",), None, "key")
    assert refusal_of(section("x", children=[section("a"), section("a")])) == (("x", "a"), None, "key")
    template(section("x", children=[section("a")]), section("y", children=[section("a")]))


def test_a_dotted_path_names_one_section() -> None:
    assert refusal_of(section("a.b"), section("a", children=[section("b")])) == (("a", "b"), None, "key")


def test_a_placeholder_is_a_field_of_the_parameters() -> None:
    kind = MarkdownSection[Guest]
    template(section("a", "$name ${nights} $$price", kind))
    assert refusal_of(inside(section("a", "$name $surname", kind))) == (("top", "a"), Guest, "surname")
    assert refusal_of(section("a", "$name")) == (("a",), None, "name")
    assert refusal_of(section("a", "x", kind, summary="for $surname")) == (("a",), Guest, "surname")
    with pytest.raises(PromptValidationError, match="there are: name, nights"):
        template(section("a", "$surname", kind))
    with pytest.raises(PromptValidationError, match=r"is made as MarkdownSection\[Params\]"):
        template(section("a", "$name"))


def test_a_dollar_sign_that_begins_nothing_is_refused() -> None:
    assert refusal_of(section("a", "costs $5")) == (("a",), None, "$")
    assert refusal_of(section("a", "x", summary="costs $5")) == (("a",), None, "$")


@pytest.mark.parametrize("kind", [int, dict, Model, str])
def test_parameters_are_a_dataclass(kind: Any) -> None:
    assert refusal_of(inside(section("a", kind=MarkdownSection[kind]))) == (("top", "a"), kind, "ParamsT")


def test_parameters_that_are_no_class_are_refused() -> None:
    assert refusal_of(section("a", kind=MarkdownSection[Guest | None])) == (("a",), None, "ParamsT")
    assert refusal_of(section("a", default_params=Guest)) == (("a",), type, "ParamsT")


@pytest.mark.parametrize("default", [Room(), LargerGuest("Ada"), "Ada", 0])
def test_defaults_are_exactly_of_the_parameters_type(default: Any) -> None:
    made = section("a", kind=MarkdownSection[Guest], default_params=default)
    assert refusal_of(inside(made)) == (("top", "a"), Guest, "default_params")


def test_a_section_shown_as_a_summary_needs_a_summary() -> None:
    made = section("a", visibility=SectionVisibility.SUMMARY)
    assert refusal_of(inside(made)) == (("top", "a"), None, "summary")


@pytest.mark.parametrize(
    "ns", ["", "/", "a/", "a//b", "../a", "a/../b", "a b", ".", None, "a" * 65, "/".join("a" * 101)]
)
def test_an_ns_is_keys_joined_by_slashes(ns: Any) -> None:
    with pytest.raises(PromptValidationError):
        PromptTemplate(ns=ns, key="a")


def test_ns_key_and_name() -> None:
    made = PromptTemplate(ns=" Examples/Tooling ", key="Demo")
    assert (made.ns, made.key, made.name) == ("examples/tooling", "demo", None)
    assert Prompt(made).name == "examples/tooling/demo"
    assert Prompt(PromptTemplate("a", "b", "The desk")).name == "The desk"
    for name in ("", " ", 3):
        with pytest.raises(PromptValidationError):
            PromptTemplate("a", "b", name)  # type: ignore[arg-type]
    with pytest.raises(PromptValidationError):
        PromptTemplate("a", "b/c")


def test_a_value_that_is_no_section_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="str"):
        template("guidance")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="into a list"):
        PromptTemplate(ns="hotel", key="desk", sections=section())


def test_a_template_is_frozen_and_does_not_follow_the_list_it_was_made_of() -> None:
    sections = [section("a")]
    made = PromptTemplate(ns="hotel", key="desk", sections=sections)
    sections.append(section("b"))
    assert len(made.sections) == 1
    with pytest.raises(AttributeError):
        made.key = "b"  # type: ignore[misc]


def test_tools_are_those_of_all_sections_depth_first() -> None:
    tree = (
        section("a", tools=[a_tool("t1"), a_tool("t2")], children=[section("b", tools=[a_tool("t3")])]),
        section("c", tools=[a_tool("t4")], enabled=lambda: False),
    )
    assert [tool.name for tool in template(*tree).tools] == ["t1", "t2", "t3", "t4"]


@pytest.mark.parametrize("kind", [int, str, dict, "Guest", list[int], list, tuple[Guest, Guest], Guest | None, Any])
def test_an_output_is_a_dataclass_a_model_or_a_list_of_one(kind: Any) -> None:
    with pytest.raises(PromptValidationError) as caught:
        template(kind=PromptTemplate[kind])
    assert caught.value.placeholder == "OutputT"


def test_an_output_that_can_not_be_described_is_refused() -> None:
    @dataclass
    class Odd:
        value: int | list[int]

    with pytest.raises(PromptValidationError) as caught:
        template(kind=PromptTemplate[Odd])
    assert (caught.value.dataclass_type, caught.value.placeholder) == (Odd, "OutputT")


def test_a_template_without_an_output_asks_for_prose() -> None:
    assert template().structured_output is None
    assert template(kind=PromptTemplate[None]).structured_output is None


def test_a_subscribed_template_can_be_an_annotation_and_a_base() -> None:
    class Mine(PromptTemplate[Guest]):
        pass

    assert isinstance(Mine("a", "b"), PromptTemplate)
    assert (PromptTemplate[Guest] | None) is not None
    assert (None | PromptTemplate[Guest]) is not None


class Answers(PromptTemplate[Guest]):
    pass


class AnswersMore(Answers):
    pass


class Lists(PromptTemplate[list[Guest]]):
    pass


@pytest.mark.parametrize(("kind", "container"), [(Answers, "object"), (AnswersMore, "object"), (Lists, "array")])
def test_a_subclass_of_a_template_asks_for_the_output_that_it_names(kind: Any, container: str) -> None:
    made = template(section(), kind=kind)
    assert type(made) is kind
    assert made.structured_output is not None
    assert (made.structured_output.output_type, made.structured_output.container) == (Guest, container)
    assert "JSON" in Prompt(made).render().text


def test_a_subclass_of_a_template_asks_for_no_other_output() -> None:
    assert template(section(), kind=Answers[Guest]).structured_output is not None  # type: ignore[misc]
    with pytest.raises(PromptValidationError, match="its class declares another output") as caught:
        template(section(), kind=Answers[Room])  # type: ignore[misc]
    assert caught.value.placeholder == "OutputT"


def test_a_template_without_an_output_has_none() -> None:
    class Plain(PromptTemplate[None]):
        pass

    assert template(section(), kind=Plain).structured_output is None
