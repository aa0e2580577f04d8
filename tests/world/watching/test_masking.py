"""What is shown while it comes holds no secret, however it is cut; and nothing else is changed or lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demiurge.capabilities.injection import MASK, Injections
from demiurge.models.scrub import written_forms
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.world.watching.masking import Masking

KEY = "sk-canary/0123+456789=abcdef"
FORMS = sorted(written_forms(KEY))
words = st.one_of(st.sampled_from([*FORMS, KEY, "sk-", KEY[:9], KEY[5:], " "]), st.text("ks-cany/01 ", max_size=6))


def masking_with_output() -> tuple[Masking, list[AiEvent]]:
    injections = Injections()
    injections.add({"alias": "llm/api", "version": 1}, Secret(KEY))
    shown: list[AiEvent] = []
    return Masking(injections, shown.append), shown


def text_of(events: list[AiEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


@given(st.lists(words, max_size=12).map("".join), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_a_secret_in_pieces_is_never_shown(whole: str, widths: list[int]) -> None:
    masked, shown = masking_with_output()
    start = 0
    with masked:
        while start < len(whole):
            width = widths[start % len(widths)]
            masked.see(TextDelta(whole[start : start + width]))
            start += width
            assert not any(form in text_of(shown) for form in FORMS)
    said = text_of(shown)
    assert not any(form in said for form in FORMS)
    if MASK not in said:
        assert said == whole


def test_only_what_a_secret_may_begin_with_waits() -> None:
    masked, shown = masking_with_output()
    masked.see(TextDelta("It is"))
    assert text_of(shown) == "It i"
    masked.see(TextDelta(" so."))
    assert text_of(shown) == "It is so."
    masked.see(TextDelta(" Key: " + KEY[:12]))
    assert text_of(shown) == "It is so. Key: "
    masked.see(TextDelta(KEY[12:] + "!"))
    assert text_of(shown) == f"It is so. Key: {MASK}!"


def test_a_secret_with_something_else_between_its_pieces_is_never_shown() -> None:
    masked, shown = masking_with_output()
    with masked:
        masked.see(TextDelta("Key: " + KEY[:12]))
        masked.see(Status("tool_use", f"with {KEY}"))
        masked.see(TextDelta(KEY[12:] + "!"))
    assert text_of(shown) == f"Key: {MASK}!"
    assert Status("tool_use", f"with {MASK}") in shown


def test_held_back_text_is_shown_at_the_end() -> None:
    masked, shown = masking_with_output()
    with masked:
        masked.see(TextDelta("sk-"))
        masked.see(Status("tool_use", "now"))
    assert shown == [TextDelta(""), Status("tool_use", "now"), TextDelta("sk-")]


def test_without_secrets_events_are_handed_on_as_they_are() -> None:
    shown: list[AiEvent] = []
    masked = Masking(Injections(), shown.append)
    event = TextDelta("sk-")
    masked.see(event)
    assert shown[0] is event
