"""The benchmark of reviewed prompt tools, with a few versions."""

from __future__ import annotations

import pytest

from bench import prompt_tools


def test_each_figure_is_measured_at_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_tools, "SIZES", (2, 3))
    monkeypatch.setattr(prompt_tools, "ROUNDS", 2)
    lines = prompt_tools.run()
    assert [what.rpartition(", ")[2] for what, _, _ in lines] == ["2 versions", "3 versions"] * 4
    assert all(ratio == "1.00" for what, _, ratio in lines if what.endswith("2 versions"))
