"""Other people's text on a terminal."""

from __future__ import annotations

import io

import pytest

from demiurge.cli import output
from demiurge.cli.barred import barred

FORGED = "x" * 36 + "trusted, rule allow: nothing to do.\nsecond \u202e"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_each_row_of_a_terminal_begins_with_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(output, "stdout", Screen)
    rows = barred(FORGED)
    assert [row[:4] for row in rows] == ["  | "] * len(rows)
    assert max(map(len, rows)) <= 40
    assert "".join(row[4:] for row in rows[:2]) == FORGED.split("\n")[0]
    assert "\u202e" not in rows[-1]


def test_a_file_has_the_lines_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(output, "stdout", io.StringIO)
    monkeypatch.setattr(output, "stderr", io.StringIO)
    assert len(barred(FORGED, "    | ")[0]) == len(FORGED.split("\n")[0]) + 6
