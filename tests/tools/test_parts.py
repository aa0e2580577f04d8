"""Images, sounds and files of a result: what is taken, what is public, and what the model gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.wire.test_attachments import SAMPLES

from demiurge import (
    Budgets,
    Redaction,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    tool,
)
from demiurge.errors import InvalidValue
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools import Audio, EffectLedger, File, IdempotencyConfig, IdempotencyStrategy, Image, ToolCallResult
from demiurge.tools.parts import (
    MAX_PART_BYTES,
    MAX_PARTS,
    MAX_PARTS_BYTES,
    checked_parts,
    part_node,
    parts_of,
    with_parts,
)
from demiurge.tools.record import ToolExecResult
from demiurge.values.refs import ref_of

PNG, WAV = SAMPLES["image/png"][0], SAMPLES["audio/wav"][0]
BINARY = b"\x80\x81\xfe"
READ = ToolEffect.READ_ONLY


class Plot(Image):
    """A program's own kind of image."""


class Blobs(dict[str, bytes]):
    def put(self, data: bytes, /) -> str:
        self[ref_of(data)] = data
        return ref_of(data)


def answer(returned: Any, *, blobs: Any = None, limit: int | None = None, **options: Any) -> ToolExecResult:
    @tool(effect=READ, **options)
    def plot() -> ToolResult[Any]:
        """Plot."""
        result: ToolResult[Any] = returned
        return result

    policy = ToolPolicy(("plot",), budgets=Budgets(max_result_bytes=limit))
    return ToolRunner([plot], policy=policy, blobs=blobs).exec_sync("plot", "{}")


@pytest.mark.parametrize(
    ("part", "mime", "name"),
    [
        (Image(data=PNG), "image/png", ""),
        (Image(data=PNG, mime="image/png", name="plot.png"), "image/png", "plot.png"),
        (Image(data=SAMPLES["image/jpeg"][0], mime="image/jpg"), "image/jpeg", ""),
        (Audio(data=WAV, mime="audio/x-wav"), "audio/wav", ""),
        (File(data=b"a,b\n1,2\n", mime="text/csv", name="../../a\u202e.csv"), "text/csv", "a.csv"),
        (File(data=b"plain"), "text/plain", ""),
        (File(data=BINARY), "application/octet-stream", ""),
        (File(data=PNG), "image/png", ""),
        (File(data=b"%PDF-1.7", mime="application/PDF", name="x" * 300), "application/pdf", "x" * 200),
        (File(data=memoryview(b"")), "text/plain", ""),  # type: ignore[arg-type]
    ],
)
def test_a_part_gets_the_type_of_its_bytes_and_a_safe_name(part: Any, mime: str, name: str) -> None:
    [checked] = checked_parts([part])
    assert (type(checked), checked.mime, checked.data, checked.name) == (type(part), mime, bytes(part.data), name)


def test_a_subclass_of_a_part_is_that_part() -> None:
    assert checked_parts([Plot(data=PNG, name="plot.png")]) == (Image("image/png", PNG, "plot.png"),)


@pytest.mark.parametrize(
    "parts",
    [
        "text",
        [b"bytes"],
        [Image(data=b"<svg/>")],
        [Image(data=WAV)],
        [Image(data=PNG, mime="image/gif")],
        [Image(data="text")],  # type: ignore[arg-type]
        [Image(data=PNG, name=7)],  # type: ignore[arg-type]
        [Audio(data=PNG)],
        [File(data=b"<html>", mime="image/png")],
        [File(data=b"<html>", mime="application/pdf")],
        [File(data=BINARY, mime="text/plain")],
        [File(data=BINARY, mime="application/json")],
        [File(data=b"x", mime="text/html; charset=utf-8")],
        [File(data=b"x", mime="no type")],
        [File(data=bytes(MAX_PART_BYTES + 1))],
        [File(data=b"x")] * (MAX_PARTS + 1),
        [File(data=bytes(MAX_PARTS_BYTES // 2))] * 2 + [File(data=b"x")],
    ],
)
def test_a_part_that_is_not_what_it_says_makes_the_result_invalid(parts: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidValue) as refused:
        checked_parts(parts)
    assert refused.value.path.startswith("parts")
    result = answer(ToolResult("Done.", parts=parts), blobs=Blobs())
    assert (result.error_code, result.parts) == ("output_validation", ())
    assert "parts that can't be taken" in caplog.text


def test_parts_are_private_unless_the_redaction_allows_them() -> None:
    plotted: ToolResult[dict[str, int]] = ToolResult(
        "One plot.", {"points": 3, "secret": 1}, parts=[Image(data=PNG, name="plot.png")]
    )
    node = {"kind": "image", "mime": "image/png", "bytes_ref": ref_of(PNG), "size": len(PNG), "name": "plot.png"}
    blobs = Blobs()
    private = answer(plotted, blobs=blobs, redaction=Redaction.allow("points"))
    assert (private.value, private.record.result) == ({"points": 3}, {"points": 3})
    assert private.parts == (Image("image/png", PNG, "plot.png"),)
    assert blobs == {ref_of(PNG): PNG}
    public = answer(plotted, blobs=blobs, redaction=Redaction.allow("points", parts=True))
    assert public.value == {"points": 3, "parts": [node]}
    assert parts_of(public.value) == [node]
    assert PNG.hex() not in repr(public) + repr(private)


@pytest.mark.parametrize("view", [None, "text", [1], {"parts": 1}])
def test_a_view_without_room_for_parts_goes_beside_them(view: Any) -> None:
    node = part_node(Image("image/png", PNG))
    shown = with_parts(view, [node])
    assert parts_of(shown) == [node]
    assert shown.get("value") == view
    assert parts_of(view) == []


def test_a_redaction_with_parts_has_another_digest_and_can_be_read_back() -> None:
    plain, parts = Redaction.allow("a"), Redaction.allow("a", parts=True)
    assert plain.to_json() == {"mode": "top_level", "fields": ["a"]}
    assert parts.to_json() == {"mode": "top_level", "fields": ["a"], "parts": True}
    assert Redaction.from_json(parts.to_json()) == parts
    with pytest.raises(InvalidValue):
        Redaction.from_json({**plain.to_json(), "parts": "yes"})


def test_parts_do_not_count_as_text_and_need_a_store_beyond_the_limit() -> None:
    plotted: ToolResult[None] = ToolResult("One plot.", parts=[Image(data=PNG)])
    assert answer(plotted, blobs=Blobs(), limit=20).ok
    assert answer(plotted, limit=len(PNG)).parts == (Image("image/png", PNG),)
    assert answer(plotted, limit=len(PNG) - 1).error_code == "result_too_large"
    assert answer(plotted).ok


def test_a_failure_has_no_parts() -> None:
    failed = answer(ToolResult[None]("No plot.", success=False, parts=[Image(data=PNG)]), blobs=Blobs())
    assert (failed.ok, failed.parts) == (False, ())


def test_bytes_that_are_not_text_become_a_file() -> None:
    @tool(effect=READ, redaction=Redaction.message_only(parts=True))
    def dump(kind: str) -> bytes:
        """Dump."""
        return BINARY if kind == "binary" else "Grüße".encode()

    events: list[Any] = []
    runner = ToolRunner([dump], policy=ToolPolicy(("dump",)), emit=events.append)
    text = runner.exec_sync("dump", {"kind": "text"})
    assert (text.content, text.parts) == ("Grüße", ())
    binary = runner.exec_sync("dump", {"kind": "binary"})
    assert binary.content == f"3 bytes that are not text, {ref_of(BINARY)}"
    assert binary.parts == (File("application/octet-stream", BINARY),)
    assert parts_of(events[-1].result) == [part_node(binary.parts[0])]
    assert isinstance(events[-1], ToolCallResult)


@pytest.mark.parametrize("durable", [False, True])
def test_an_equal_call_brings_the_recorded_parts_again(durable: bool, tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(
        effect=ToolEffect.STATE_CHANGE,
        idempotency=IdempotencyConfig(IdempotencyStrategy.AUTO),
        redaction=Redaction.message_only(parts=True),
    )
    def plot(name: str) -> ToolResult[bytes]:
        """Plot."""
        ran.append(name)
        return ToolResult("One plot.", BINARY, parts=[Image(data=PNG, name=name), Audio(data=WAV), File(data=b"text")])

    def run() -> ToolExecResult:
        ledger = SqliteEffectLedger(tmp_path / "ledger.db") if durable else memory
        try:
            return ToolRunner([plot], policy=ToolPolicy(("plot",)), ledger=ledger, blobs=Blobs()).exec_sync(
                "plot", {"name": "a.png"}, tool_call_id="c1"
            )
        finally:
            if isinstance(ledger, SqliteEffectLedger):
                ledger.close()

    memory = EffectLedger()
    first, again = run(), run()
    assert (ran, again.record.replayed) == (["a.png"], True)
    assert [part.mime for part in first.parts] == ["image/png", "audio/wav", "text/plain", "application/octet-stream"]
    assert (again.parts, again.value, again.content) == (first.parts, first.value, first.content)
