"""`demiurge chat --attach`: images and sounds that go with a message."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tests.wire.test_attachments import PNG, WAV

from demiurge.values.refs import ref_of


def test_files_go_with_a_message_and_are_shown(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    (tmp_path / "note.wav").write_bytes(WAV)
    provider.say(provider.answer(provider.text("A chart.")))
    done = demiurge("chat", "--attach", "chart.png", "--attach", "note.wav", "-m", "What is this?")
    assert (done.status, "A chart." in done.out) == (0, True)
    [text, image, sound] = provider.seen[0]["input"][-1]["content"]
    assert text["text"] == "What is this?"
    assert image["image_url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert sound["input_audio"] == {"data": base64.b64encode(WAV).decode(), "format": "wav"}

    shown = demiurge("chat", "show").out
    assert f"> What is this?\n[image/png {ref_of(PNG)}]\n[audio/wav {ref_of(WAV)}]\n" in shown
    [first, _] = demiurge("--json", "chat", "export").document["messages"]
    assert [part["mime"] for part in first["attachments"]] == ["image/png", "audio/wav"]


def test_a_file_that_is_none_of_the_types_is_named(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    (tmp_path / "page.png").write_text("<html>")
    done = demiurge("--json", "chat", "--attach", "page.png", "-m", "What is this?")
    assert (done.status, done.document["error"]["code"]) == (1, "bad_attachment")
    assert "page.png" in done.document["error"]["message"]
    assert provider.seen == []


def test_a_file_that_is_not_there_is_named(demiurge: Any, provider: Any) -> None:
    done = demiurge("chat", "--attach", "none.png", "-m", "What is this?")
    assert (done.status, "none.png" in done.err) == (1, True)
    assert provider.seen == []


def test_an_attachment_needs_a_message(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    done = demiurge("chat", "--attach", "chart.png")
    assert (done.status, "--message" in done.err) == (2, True)
