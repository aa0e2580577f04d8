"""What a section alone can be made of."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest
from tests.prompts.example_prompts import Guest, Room, a_tool, section

from demiurge.prompts import MarkdownSection, PromptValidationError, Section, SectionVisibility

T = TypeVar("T")
U = TypeVar("U")


@pytest.mark.parametrize("key", ["a", "0", "planning.tools", "a_b-c.d", "a" * 64])
def test_a_key_is_1_to_64_of_its_characters(key: str) -> None:
    assert section(key).key == key


def test_a_key_is_stripped_and_in_lower_case() -> None:
    assert section("  Guidance\n").key == "guidance"


@pytest.mark.parametrize("key", ["", " ", ".a", "-a", "_a", "a b", "a/b", "ä", "a" * 65, "a\nb", None, 3])
def test_another_key_is_refused(key: Any) -> None:
    with pytest.raises(PromptValidationError) as caught:
        MarkdownSection(title="A", key=key, template="")
    assert caught.value.placeholder == "key"
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("title", ["", "  ", "two\nlines", "two\u2028lines", None])
def test_a_title_is_a_line_of_text(title: Any) -> None:
    with pytest.raises(PromptValidationError) as caught:
        section(title=title)
    assert (caught.value.section_path, caught.value.placeholder) == (("guidance",), "title")


@pytest.mark.parametrize(
    ("options", "placeholder"),
    [
        ({"template": None}, "template"),
        ({"summary": " "}, "summary"),
        ({"summary": 3}, "summary"),
        ({"visibility": "hidden"}, "visibility"),
        ({"visibility": None}, "visibility"),
        ({"accepts_overrides": "no"}, "accepts_overrides"),
        ({"enabled": True}, "enabled"),
        ({"enabled": "always"}, "enabled"),
        ({"enabled": lambda params, more: True}, "enabled"),
        ({"enabled": lambda *params: True}, "enabled"),
        ({"enabled": lambda **params: True}, "enabled"),
        ({"enabled": lambda *, clock: True}, "enabled"),
        ({"enabled": lambda params, session: True}, "enabled"),
        ({"enabled": lambda session: True}, "enabled"),
        ({"visibility": lambda params, more: SectionVisibility.FULL}, "visibility"),
    ],
)
def test_a_part_of_another_kind_is_refused_by_its_name(options: dict[str, Any], placeholder: str) -> None:
    with pytest.raises(PromptValidationError) as caught:
        section(**options)
    assert (caught.value.section_path, caught.value.placeholder) == (("guidance",), placeholder)


def test_a_question_that_answers_later_is_refused() -> None:
    async def enabled() -> bool:
        return True

    with pytest.raises(PromptValidationError, match="not async and not a generator"):
        section(enabled=enabled)


@pytest.mark.parametrize(
    "enabled",
    [
        lambda: True,
        lambda params: True,
        lambda *, session: True,
        lambda params, *, session: True,
        lambda params=None, *, session=None: True,
    ],
)
def test_a_question_takes_params_a_session_both_or_nothing(enabled: Callable[..., bool]) -> None:
    assert section(enabled=enabled).enabled is enabled


def test_tools_and_children_of_another_kind_are_a_type_error() -> None:
    for options in ({"tools": [str]}, {"tools": ["look_up"]}, {"children": ["text"]}, {"children": [a_tool()]}):
        with pytest.raises(TypeError, match="guidance"):
            section(**options)
    with pytest.raises(TypeError, match="into a list"):
        section(tools=a_tool())
    with pytest.raises(TypeError, match="into a list"):
        section(children=section())


def test_a_section_is_shown_by_its_kind_and_key() -> None:
    assert repr(section()) == "<MarkdownSection 'guidance'>"


def test_a_section_without_a_type_has_no_parameters() -> None:
    assert section().params_type is None
    assert MarkdownSection[None](title="A", key="a", template="").params_type is None


def test_the_type_is_that_of_the_subscription_or_else_of_the_defaults() -> None:
    assert section(kind=MarkdownSection[Guest]).params_type is Guest
    assert section(default_params=Room()).params_type is Room
    assert section(kind=MarkdownSection[Guest], default_params=Room()).params_type is Guest


def test_the_type_reaches_a_section_of_ones_own_in_every_way_of_deriving_it() -> None:
    class Fixed(MarkdownSection[Guest]):
        pass

    class Below(Fixed):
        pass

    class Open(MarkdownSection[T]):
        pass

    class Swapped(Open[U], Generic[T, U]):
        pass

    class With(Generic[T]):
        pass

    class Both(With[int], Fixed):
        pass

    for kind in (Fixed, Below, Open[Guest], Swapped[Room, Guest], Both):
        assert section(kind=kind).params_type is Guest
    assert section(kind=Open).params_type is None


def test_a_section_has_to_say_how_it_reads_and_how_it_is_cloned() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Section(title="A", key="a")  # type: ignore[abstract]


def test_a_clone_has_children_of_its_own_and_hands_on_what_it_is_given() -> None:
    seen = []

    class Bound(MarkdownSection[None]):
        def clone(self, **context: Any) -> "Bound":
            seen.append(context)
            return Bound(title=self.title, key=self.key, template=self.template)

    original = section("a", kind=MarkdownSection[Guest], children=[section("b", children=[section("c", kind=Bound)])])
    twin = original.clone(session="another")
    assert seen == [{"session": "another"}]
    assert (twin.key, twin.params_type, twin.children[0].key) == ("a", Guest, "b")
    assert twin.children[0] is not original.children[0]


ARGUMENTS = [
    "title",
    "key",
    "default_params",
    "children",
    "enabled",
    "tools",
    "accepts_overrides",
    "summary",
    "visibility",
]


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("made", [lambda self: (), property(lambda self: ()), staticmethod(lambda: ())])
def test_a_method_by_the_name_of_an_argument_is_refused(name: str, made: Any) -> None:
    """A section that defines `tools()` would have no tools, one that defines `enabled()` would always be there."""
    words = rf"Mine defines '{name}' as a method: pass {name}=\.\.\. to super\(\)\.__init__\(\) instead"
    with pytest.raises(TypeError, match=words):
        type("Mine", (MarkdownSection,), {name: made})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tools", [a_tool()]),
        ("children", (section(),)),
        ("visibility", SectionVisibility.SUMMARY),
        ("accepts_overrides", False),
        ("summary", "In short."),
        ("default_params", Guest("Ada")),
    ],
)
def test_an_attribute_that_would_be_lost_is_refused(name: str, value: Any) -> None:
    kind = type("Mine", (MarkdownSection,), {name: value})
    with pytest.raises(TypeError, match=f"Mine has an attribute '{name}' that is never read: pass {name}="):
        section(kind=kind)
    options = {"default_params": Guest("Ada")} if name == "default_params" else {name: value}
    assert getattr(section(kind=kind, **options), name) is not None


def test_a_section_may_name_its_key_in_its_class() -> None:
    class Kept(MarkdownSection[None]):
        key = "kept"
        title = "Kept"

        def __init__(self) -> None:
            super().__init__(title=self.title, key=self.key, template="Text.")

    assert (Kept().key, Kept().title) == ("kept", "Kept")


def test_a_plain_function_is_a_tool_of_a_section_and_anything_else_is_refused() -> None:
    def look(words: str) -> str:
        """Looks."""
        return words

    def wordless(words: str) -> str:
        return words

    assert [tool.name for tool in section("a", tools=[look]).tools] == ["look"]
    with pytest.raises(PromptValidationError, match="section 'a': tool 'wordless': write a docstring"):
        section("a", tools=[wordless])
    with pytest.raises(TypeError, match="section 'a': tools are Tools or functions, not str"):
        section("a", tools=["look"])
    with pytest.raises(TypeError, match="section 'a': children are Sections, not function"):
        section("a", children=[look])
