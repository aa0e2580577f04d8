"""A key's file: made once, whoever asks first."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from demiurge.errors import Unavailable
from demiurge.stores.secret_key import read_key, read_or_make_key
from demiurge.values.clock import SystemEntropy


def test_looking_makes_none(tmp_path: Path) -> None:
    assert read_key(tmp_path / "keys" / "a.key") is None
    assert not (tmp_path / "keys").exists()


def test_a_key_file_is_made_private_and_keeps_its_key(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "a.key"
    key = read_or_make_key(path, SystemEntropy())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    found = read_key(path)
    assert found is not None
    assert len(bytes.fromhex(found.reveal())) == 32
    assert {read_or_make_key(path, SystemEntropy()).reveal(), found.reveal()} == {key.reveal()}


def test_many_who_make_it_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = list(pool.map(lambda _: read_or_make_key(tmp_path / "a.key", SystemEntropy()).reveal(), range(64)))
    assert len(set(keys)) == 1


@pytest.mark.parametrize("data", [b"", b"no key", b"5a" * 31, b"5a" * 33])
def test_a_value_that_is_no_key_is_refused_and_kept(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.key"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(Unavailable, match="64 hexadecimal digits"):
        read_or_make_key(path, SystemEntropy())
    assert path.read_bytes() == data
