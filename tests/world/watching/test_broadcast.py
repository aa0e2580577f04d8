"""Whoever looks on sees the same, whenever it comes, however slow it is, and however often an effect is begun."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demiurge.tools.events import AiEvent, Status, TextDelta, ToolCallResult, ToolProgress
from demiurge.world.unit import Unit
from demiurge.world.watching import broadcast as bounds
from demiurge.world.watching.broadcast import Broadcast, Strip, Watcher
from demiurge.world.watching.frame import Began, Closed, Lagged, WatchFrame, frame_to_json, places_of

A, B = Unit("ex/Room@1", "a"), Unit("ex/Room@1", "b")
ONE, TWO = b"\x01", b"\x02"


class Receipts(dict[tuple[str, str], int]):
    """Where receipts were recorded."""

    def find(self, unit: str, ingress_id: str) -> int | None:
        return self.get((unit, ingress_id))


def broadcast_of_no_receipts() -> Broadcast:
    return Broadcast(Receipts().find)


def events_of(frames: list[WatchFrame]) -> list[object]:
    return [frame.event for frame in frames]


def test_one_who_comes_late_is_shown_all_of_it_in_few_pieces() -> None:
    shown = broadcast_of_no_receipts()
    strip = shown.begin(A, ONE, 0, "k")
    for piece in ("Hel", "lo", " there"):
        strip.show(TextDelta(piece))
    strip.show(Status("tool_use", "add"))
    strip.show(TextDelta("."))
    with shown.watch(A) as watcher:
        frames = watcher.take()
        assert events_of(frames) == [Began("k"), TextDelta("Hello there"), Status("tool_use", "add"), TextDelta(".")]
        assert [frame.offset for frame in frames] == [0, 1, 12, 13]
        assert [frame.end for frame in frames] == [1, 12, 13, 14]
        strip.show(TextDelta("!"))
        [more] = watcher.take()
        assert (more.event, more.offset) == (TextDelta("!"), 14)
        assert watcher.take() == []


def test_one_who_comes_late_is_shown_only_the_newest_progress() -> None:
    shown = broadcast_of_no_receipts()
    strip = shown.begin(A, ONE, 0, "k")
    with shown.watch(A) as early:
        for done in range(bounds.LONGEST // bounds.REPLACED // 2):
            strip.show(ToolProgress("c1", done))
            if done < 2:
                assert events_of(early.take())[-1] == ToolProgress("c1", done)
        strip.show(ToolCallResult("c1", "found"))
        with shown.watch(A) as late:
            frames = late.take()
        assert events_of(frames) == [Began("k"), ToolProgress("c1", done), ToolCallResult("c1", "found")]
        assert events_of(early.take()) == events_of(frames)[1:]
        assert [frame.end for frame in frames[1:]] == [done + 2, done + 3]


def test_one_who_comes_again_is_shown_the_rest() -> None:
    shown = broadcast_of_no_receipts()
    strip = shown.begin(A, ONE, 0, "k")
    strip.show(TextDelta("Hello"))
    with shown.watch(A) as first:
        taken = first.take()
    strip.show(TextDelta(" there"))
    with shown.watch(A, places_of(map(frame_to_json, taken))) as again:
        assert events_of(again.take()) == [TextDelta(" there")]
    cut = frame_to_json(taken[-1]) | {"end": 3}
    with shown.watch(A, places_of([cut])) as in_the_middle:
        assert events_of(in_the_middle.take()) == [TextDelta("llo there")]


def test_a_new_attempt_begins_anew_and_what_was_not_read_of_the_old_one_never_is() -> None:
    shown = broadcast_of_no_receipts()
    first = shown.begin(A, ONE, 0, "k")
    first.show(TextDelta("Hel"))
    with shown.watch() as watcher, shown.watch(B) as other:
        watcher.take()
        first.show(TextDelta("lo"))
        shown.begin(A, ONE, 1, "k").show(TextDelta("Good day"))
        frames = watcher.take()
        assert events_of(frames) == [Began("k"), TextDelta("Good day")]
        assert {frame.attempt for frame in frames} == {1}
        assert other.take() == []


def test_the_end_comes_after_all_that_was_shown_and_says_where_the_record_is() -> None:
    shown = broadcast_of_no_receipts()
    with shown.watch(A) as watcher:
        strip = shown.begin(A, ONE, 0, "k")
        strip.show(TextDelta("Hello"))
        shown.close(A, ONE, 7)
        *_, last = watcher.take()
        assert (last.event, last.offset, last.intent) == (Closed(7), 6, ONE)
    with shown.watch(A) as late:
        assert late.take() == []


def test_one_who_missed_the_end_is_told_of_it() -> None:
    receipts = Receipts()
    shown = Broadcast(receipts.find)
    with shown.watch(A) as watcher:
        shown.begin(A, ONE, 2, "k").show(TextDelta("Hello"))
        before = places_of(map(frame_to_json, watcher.take()))
    shown.close(A, ONE, 7)
    receipts[str(A), "receipt:01"] = 7
    with shown.watch(A, before) as again, shown.watch(B, before) as other:
        [told] = again.take()
        assert (told.event, told.attempt, told.offset) == (Closed(7), 2, 6)
        assert other.take() == []


def test_one_who_saw_an_effect_elsewhere_is_told_once_that_it_has_ended_here() -> None:
    shown = broadcast_of_no_receipts()
    known = WatchFrame(A, ONE, 1, 4, TextDelta("ab"))
    with shown.watch(A) as fresh, shown.watch(A, places_of([frame_to_json(known)])) as again:
        assert again.take() == []
        shown.close(A, ONE, 3)
        shown.close(A, ONE, 3)
        assert [(f.event, f.attempt, f.offset) for f in again.take()] == [(Closed(3), 1, 6)]
        shown.close(A, ONE, 3)
        assert again.take() == fresh.take() == []


def test_an_overlong_stream_is_shown_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LONGEST", bounds.EVENT + 10)
    shown = broadcast_of_no_receipts()
    with shown.watch(A) as watcher:
        strip = shown.begin(A, ONE, 0, "k")
        for piece in ("12345", "67890", "x", ""):
            strip.show(TextDelta(piece))
        strip.show(Status("thinking"))
        assert events_of(watcher.take()) == [Began("k"), TextDelta("1234567890")]
        assert strip.text == "1234567890"
        shown.close(A, ONE, 1)
        assert events_of(watcher.take()) == [Closed(1)]


def test_one_who_never_reads_is_cut_and_told_so_and_goes_on_with_what_runs() -> None:
    shown = broadcast_of_no_receipts()
    with shown.watch(A) as slow:
        running = shown.begin(A, ONE, 0, "k")
        running.show(TextDelta("Hel"))
        assert len(slow.take()) == 2
        for number in range(3 * bounds.MOST_ENDED):
            intent = number.to_bytes(4, "big")
            shown.begin(A, intent, 0, "k")
            shown.close(A, intent, number)
        running.show(TextDelta("lo"))
        assert len(slow._behind) <= bounds.MOST_ENDED + 1
        frames = slow.take()
        assert isinstance(frames[0].event, Lagged)
        assert frames[0].unit == A
        assert [frame.event for frame in frames if frame.intent == ONE] == [TextDelta("lo")]
        assert slow.take() == []


def test_long_texts_that_nobody_reads_are_not_kept_for_ever() -> None:
    shown = broadcast_of_no_receipts()
    with shown.watch(A) as slow:
        for number in range(5):
            strip = shown.begin(A, bytes([number]), 0, "k")
            strip.show(TextDelta("x" * (bounds.LONGEST // 2)))
            shown.close(A, bytes([number]), number)
        kept = sum(len(frame.event.delta) for frame in slow.take() if isinstance(frame.event, TextDelta))
        assert kept <= bounds.LONGEST


async def test_a_watcher_waits_for_more_and_ends_when_it_is_told_to() -> None:
    shown = broadcast_of_no_receipts()
    got: list[object] = []

    async def look(watcher: Watcher) -> None:
        nonlocal got
        async for frame in watcher:
            got += [frame.event]

    with shown.watch(A) as watcher:
        looking = asyncio.create_task(look(watcher))
        strip = shown.begin(A, ONE, 0, "k")
        while len(got) < 1:
            await asyncio.sleep(0)
        strip.show(TextDelta("a"))
        while len(got) < 2:
            await asyncio.sleep(0)
        strip.show(TextDelta("b"))
        strip.show(TextDelta("c"))
        shown.end()
        await looking
        assert got == [Began("k"), TextDelta("a"), TextDelta("bc")]
    strip.show(TextDelta("nobody"))
    assert watcher.take() == []


# -- everything at once -----------------------------------------------------------------------------------------------


@dataclass
class Picture:
    """What somebody has on the screen: of each intent the text of its last attempt, and whether it is over."""

    frames: list[WatchFrame] = field(default_factory=list)
    text: dict[bytes, str] = field(default_factory=dict)
    attempt: dict[bytes, int] = field(default_factory=dict)
    end: dict[bytes, int] = field(default_factory=dict)
    over: set[bytes] = field(default_factory=set)

    def see(self, frame: WatchFrame) -> None:
        intent = frame.intent
        self.frames.append(frame)
        assert intent not in self.over, "nothing comes after the end"
        match frame.event:
            case Closed():
                self.over.add(intent)
                return
            case Began():
                assert frame.attempt > self.attempt.get(intent, -1), "each attempt begins once"
                assert frame.offset == 0
                self.text[intent], self.attempt[intent] = "", frame.attempt
            case TextDelta(delta):
                self.text[intent] += delta
        assert frame.attempt == self.attempt[intent]
        assert frame.offset == (0 if isinstance(frame.event, Began) else self.end[intent]), "no gap, nothing twice"
        self.end[intent] = frame.end


intents = st.sampled_from([ONE, TWO])
shown_events = st.one_of(
    st.builds(TextDelta, st.text(max_size=5)), st.just(Status("thinking")), st.just(Status("tool_use", "x"))
)
acts = st.one_of(
    st.tuples(st.just("show"), intents, shown_events),
    st.tuples(st.just("show"), intents, shown_events),
    st.tuples(st.just("begin"), intents),
    st.tuples(st.just("close"), intents),
    st.tuples(st.just("join"), st.integers(0, 2)),
    st.tuples(st.just("leave"), st.integers(0, 2)),
    st.tuples(st.just("look"), st.integers(0, 2)),
)


class Theatre:
    """Two intents, and three people who come and go; `truth` is the text of each attempt."""

    def __init__(self) -> None:
        self.receipts = Receipts()
        self.broadcast = Broadcast(self.receipts.find)
        self.strips: dict[bytes, Strip] = {}
        self.truth: dict[bytes, list[str]] = {}
        self.over: set[bytes] = set()
        self.pictures = [Picture() for _ in range(3)]
        self.watchers: dict[int, Watcher] = {}

    def begin(self, intent: bytes) -> None:
        if intent not in self.over:
            attempts = self.truth.setdefault(intent, [])
            self.strips[intent] = self.broadcast.begin(A, intent, len(attempts), "k")
            attempts.append("")

    def show(self, intent: bytes, event: AiEvent) -> None:
        if intent in self.truth and intent not in self.over:
            self.strips[intent].show(event)
            self.truth[intent][-1] += event.delta if isinstance(event, TextDelta) else ""

    def close(self, intent: bytes) -> None:
        if intent in self.truth and intent not in self.over:
            self.over.add(intent)
            self.receipts[str(A), f"receipt:{intent.hex()}"] = 1
            self.broadcast.close(A, intent, 1)

    def join(self, person: int) -> None:
        if person not in self.watchers:
            before = places_of(map(frame_to_json, self.pictures[person].frames))
            self.watchers[person] = self.broadcast.watch(A, before)

    def leave(self, person: int) -> None:
        if person in self.watchers:
            self.watchers.pop(person).__exit__()

    def look(self, person: int) -> None:
        if person in self.watchers:
            for frame in self.watchers[person].take():
                self.pictures[person].see(frame)
        for intent, text in self.pictures[person].text.items():
            attempt = self.pictures[person].attempt[intent]
            assert self.truth[intent][attempt].startswith(text), "what is shown is the beginning of an attempt"


@settings(max_examples=400)
@given(st.lists(acts, max_size=60))
def test_every_picture_is_the_beginning_of_an_attempt_and_in_the_end_the_truth(script: list[tuple[str, ...]]) -> None:
    theatre = Theatre()
    for act, *arguments in script:
        getattr(theatre, act)(*arguments)
    for person, picture in enumerate(theatre.pictures):
        theatre.join(person)
        theatre.look(person)
        for intent, attempts in theatre.truth.items():
            if intent in theatre.over:
                assert intent in picture.over or intent not in picture.text, "the record is what is shown now"
            else:
                assert picture.text[intent] == attempts[-1]


@settings(max_examples=100)
@given(st.lists(shown_events, max_size=40))
def test_one_who_looks_after_each_event_has_the_text_when_the_end_comes(script: list[AiEvent]) -> None:
    theatre = Theatre()
    theatre.join(0)
    theatre.join(1)
    theatre.begin(ONE)
    for event in script:
        theatre.show(ONE, event)
        theatre.look(0)
    theatre.close(ONE)
    for person in (0, 1):
        theatre.look(person)
        assert theatre.pictures[person].over == {ONE}
        assert theatre.pictures[person].text[ONE] == theatre.truth[ONE][-1]
