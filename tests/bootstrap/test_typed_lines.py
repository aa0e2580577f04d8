"""The lines that a person typed: kept, read in the form of older versions, and forgotten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from demiurge.bootstrap.typed_lines import MOST, TypedLines, message_of_line
from demiurge.errors import Unavailable
from demiurge.values.refs import ref_of
from demiurge.world.messages import user_blob


def test_lines_are_kept_in_their_order_and_the_oldest_go(tmp_path: Path) -> None:
    typed = TypedLines(tmp_path)
    assert typed.read() == []
    typed.add(f"line {number}" for number in range(MOST))
    typed.add(["größer", "last"])
    assert typed.read() == [*(f"line {number}" for number in range(2, MOST)), "größer", "last"]
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600


def test_forgotten_lines_are_removed_from_the_file(tmp_path: Path) -> None:
    typed = TypedLines(tmp_path)
    typed.add(["one", "my secret", "two"])
    assert typed.forget(lambda line: "secret" in line, dry_run=True) == 1
    assert typed.forget(lambda line: "secret" in line) == 1
    assert (tmp_path / "history").read_bytes() == b"one\ntwo\n"
    assert TypedLines(tmp_path / "none").forget(lambda _line: True) == 0


def test_two_terminals_lose_nothing_of_each_other(tmp_path: Path) -> None:
    one, other = TypedLines(tmp_path), TypedLines(tmp_path)
    one.add(["a"])
    other.add(["b"])
    assert one.read() == ["a", "b"]


def test_a_file_that_libedit_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / "history").write_bytes(b"_HiStOrY_V2_\nmy\\040secret\\040gr\\303\\266\\303\\237e\nplain\n")
    typed = TypedLines(tmp_path)
    assert typed.read() == ["my secret größe", "plain"]
    assert typed.forget(lambda line: line == "my secret größe") == 1
    assert (tmp_path / "history").read_bytes() == b"plain\n"


def test_a_line_has_the_address_of_the_message_that_it_became() -> None:
    assert message_of_line(" hello \n") == ref_of(user_blob("hello"))


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine\n")
    os.symlink(tmp_path / "elsewhere", tmp_path / "history")
    for use in (lambda: TypedLines(tmp_path).add(["x"]), lambda: TypedLines(tmp_path).forget(lambda _line: True)):
        with pytest.raises(Unavailable):
            use()
    assert (tmp_path / "elsewhere").read_text() == "mine\n"


def test_a_message_of_several_lines_is_one_entry(tmp_path: Path) -> None:
    typed = TypedLines(tmp_path)
    typed.add(["one\ntwo \\n\n", "three"])
    assert typed.read() == ["one\ntwo \\n\n", "three"]
    assert len((tmp_path / "history").read_text().splitlines()) == 2
    assert typed.forget(lambda line: message_of_line(line) == message_of_line("one\ntwo \\n")) == 1
    assert typed.read() == ["three"]
