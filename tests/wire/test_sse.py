from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.wire import ServerEvent, SseParser
from demiurge.wire.sse import StreamTooLongError


def _read(*chunks: bytes) -> list[ServerEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def _data(*chunks: bytes) -> list[bytes]:
    return [event.data for event in _read(*chunks)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_every_line_end_separates_lines_and_events(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert _read(stream) == [ServerEvent("a", b"1\n2"), ServerEvent("message", b"3")]


def test_mixed_line_ends() -> None:
    assert _data(b"data: 1\rdata: 2\r\ndata: 3\n\r\n") == [b"1\n2\n3"]


def test_an_event_is_out_before_the_lf_of_its_last_crlf_arrives() -> None:
    parser = SseParser()
    assert [event.data for event in parser.feed(b"data: 1\r\n\r")] == [b"1"]
    assert parser.feed(b"\n") == []
    assert [event.data for event in parser.feed(b"data: 2\n\n")] == [b"2"]


def test_only_the_first_byte_order_mark_is_dropped() -> None:
    assert _data(b"\xef", b"\xbb", b"\xbfdata: 1\n\n") == [b"1"]
    assert _data(b"data: \xef\xbb\xbf1\n\n") == [b"\xef\xbb\xbf1"]
    assert _data(b"\xefdata: 1\n\n") == []


def test_comments_unknown_fields_and_empty_events_are_nothing() -> None:
    assert _data(b": hello\n\nretry: 10\nwhat: x\nevent: a\n\n:\ndata: 1\n\n") == [b"1"]


def test_one_space_after_the_colon_is_not_part_of_the_value() -> None:
    assert _data(b"data:1\ndata: 2\ndata:  3\ndata\n\n") == [b"1\n2\n 3\n"]


def test_the_id_lasts_and_the_name_does_not() -> None:
    events = _read(b"id: 7\nevent: a\ndata: 1\n\ndata: 2\n\nid: x\0\ndata: 3\n\nid\ndata: 4\n\n")
    assert [(event.event, event.id) for event in events] == [
        ("a", "7"),
        ("message", "7"),
        ("message", "7"),
        ("message", ""),
    ]


def test_unicode_line_separators_do_not_end_lines() -> None:
    text = "a\u2028b\x0bc\x85d"
    assert _data(f"data: {text}\n\n".encode()) == [text.encode()]


def test_an_unfinished_event_is_only_given_when_asked_for() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 1\n\ndata: 2\ndata: 3") == [ServerEvent("message", b"1")]
    assert parser.close() == ServerEvent("message", b"2\n3")
    assert parser.close() is None


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 20, b"data: 123456\n" * 3])
def test_an_event_has_a_size_limit(stream: bytes) -> None:
    with pytest.raises(StreamTooLongError):
        SseParser(max_event=16).feed(stream)


@given(
    st.lists(
        st.sampled_from([b"data: ", b"event: ", b"id: ", b":", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", "é€😀".encode()])
        | st.binary(max_size=3)
    ).map(b"".join),
    st.data(),
)
def test_events_do_not_depend_on_the_chunks(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert _read(*chunks) == _read(stream) == _read(*(stream[i : i + 1] for i in range(len(stream))))
