"""A secret's file: read only when nobody else could have read it or put it there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from demiurge.errors import Unavailable
from demiurge.stores.secret_file import locked_folder, read_secret, write_private
from demiurge.tools.connections.credentials import MAX_SECRET_CHARACTERS

CANARY = "canary-file-0123456789"


def file(folder: Path, data: bytes = CANARY.encode(), mode: int = 0o600) -> Path:
    path = folder / "key.txt"
    path.write_bytes(data)
    path.chmod(mode)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(Unavailable) as refused:
        read_secret(path)
    assert refused.value.code == "secret_unavailable"
    assert str(path) in refused.value.message
    assert CANARY not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize("mode", [0o600, 0o400])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_value_is_read_without_its_line_end(tmp_path: Path, mode: int, end: str) -> None:
    secret = read_secret(file(tmp_path, CANARY.encode() + end.encode(), mode))
    assert secret is not None
    assert secret.reveal() == CANARY


def test_no_file_is_no_secret(tmp_path: Path) -> None:
    assert read_secret(tmp_path / "nothing") is None
    assert read_secret(file(tmp_path) / "below") is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o601])
def test_a_secret_file_that_others_can_read_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = file(tmp_path, mode=mode)
    assert "chmod 600" in refusal(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_links_are_refused(tmp_path: Path) -> None:
    soft, hard = tmp_path / "soft", tmp_path / "hard"
    soft.symlink_to(file(tmp_path))
    assert "link" in refusal(soft)
    os.link(tmp_path / "key.txt", hard)
    assert "hard link" in refusal(hard)


def test_a_dangling_link_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "soft").symlink_to(tmp_path / "nothing")
    assert "link" in refusal(tmp_path / "soft")


def test_a_secret_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, me = file(tmp_path), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert "another user" in refusal(path)


def test_a_value_that_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "no plain file" in refusal(tmp_path / "pipe")
    assert "no plain file" in refusal(tmp_path)


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff\xfe", b"x" * (MAX_SECRET_CHARACTERS + 1)])
def test_a_value_that_can_be_no_secret_is_refused(tmp_path: Path, data: bytes) -> None:
    refusal(file(tmp_path, data))


def test_a_private_file_is_written_whole_and_closed_to_others_under_any_umask(tmp_path: Path) -> None:
    earlier = os.umask(0)
    try:
        with locked_folder(tmp_path / "a" / "b"):
            (tmp_path / "a" / "b" / "x.new").write_text("left over from a crash")
            write_private(tmp_path / "a" / "b" / "x", b"value")
    finally:
        os.umask(earlier)
    assert os.listdir(tmp_path / "a" / "b") == ["x"]
    assert stat.S_IMODE((tmp_path / "a" / "b" / "x").stat().st_mode) == 0o600
    assert (tmp_path / "a" / "b" / "x").read_bytes() == b"value"


def test_a_folder_that_others_can_write_to_takes_no_secret(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(Unavailable, match="Others can write"), locked_folder(tmp_path):
        pass
