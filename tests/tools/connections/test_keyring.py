"""A sealed secret opens with its key, in its place, unchanged; of anything else nobody learns why it does not."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demiurge.errors import Damaged, InvalidValue, Unavailable
from demiurge.tools import Connection, Credentials, KeyRing, Secret
from demiurge.values.clock import SystemEntropy

OLD, NEW = bytes(range(32)), "5a" * 32
ROW = Connection("11111111-1111-4111-8111-111111111111", "github", "oauth2", "ba_1", (), None, None, "v1")
VECTOR = (
    "000102030405060708090a0b3c20b778a680b168d235f8e0d4875a57a1a2e85fd2063d71b3479a19361a3db799f52bc5e771"  # seed 003
)


class Counting:
    """Bytes 0, 1, 2, ..."""

    def token(self, n: int) -> bytes:
        return bytes(range(n))


def ring(**keys: bytes | str) -> KeyRing:
    return KeyRing(keys or {"v1": OLD})


def test_the_vector() -> None:
    assert ROW.binding == (
        b'{"billing_account_id":"ba_1","connection_id":"11111111-1111-4111-8111-111111111111","provider":"github"}'
    )
    assert ring().seal(Credentials("tok").pack(), ROW.binding, Counting()).hex() == VECTOR
    assert ring().open("v1", bytes.fromhex(VECTOR), ROW.binding).reveal() == '{"access_token":"tok"}'


def test_a_name_is_bound_as_it_is_written() -> None:
    row = Connection("i", 'git"hub', "oauth2", "Zürich", (), None, None, "v1")
    assert row.binding == '{"billing_account_id":"Zürich","connection_id":"i","provider":"git\\"hub"}'.encode()


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200), st.binary(max_size=100))
def test_a_sealed_secret_opens(text: str, associated: bytes) -> None:
    keys = ring(v1=OLD, v2=NEW)
    sealed = keys.seal(Secret(text), associated, SystemEntropy())
    assert len(sealed) == 12 + len(text.encode()) + 16
    assert keys.open(keys.newest, sealed, associated).reveal() == text


SEALED = ring().seal(Secret("a token"), b"row 1", Counting())


def assert_closed(key_id: str, sealed: bytes, associated: bytes, keys: KeyRing | None = None) -> None:
    with pytest.raises(Damaged, match="can't be decrypted") as caught:
        (keys or ring()).open(key_id, sealed, associated)
    assert caught.value.code == "sealed"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@settings(deadline=None)
@given(st.integers(0, len(SEALED) * 8 - 1))
def test_any_flipped_bit_closes_it(bit: int) -> None:
    changed = bytearray(SEALED)
    changed[bit // 8] ^= 1 << bit % 8
    assert_closed("v1", bytes(changed), b"row 1")


@settings(deadline=None)
@given(st.integers(0, len(SEALED) - 1))
def test_a_truncated_sealed_secret_does_not_open(length: int) -> None:
    assert_closed("v1", SEALED[:length], b"row 1")


def test_another_place_another_key_and_an_unknown_key_close_it() -> None:
    assert_closed("v1", SEALED, b"row 2")
    assert_closed("v1", SEALED, b"row 1", ring(v1=NEW))
    assert_closed("v2", SEALED, b"row 1")
    assert_closed("v1", SEALED + b"\0", b"row 1")


def test_old_keys_open_and_the_last_one_seals() -> None:
    keys = KeyRing({"v1": OLD, "v2": NEW})
    assert keys.newest == "v2"
    assert keys.open("v1", SEALED, b"row 1").reveal() == "a token"
    later = keys.seal(Secret("a token"), b"row 1", SystemEntropy())
    assert ring(v2=NEW).open("v2", later, b"row 1").reveal() == "a token"
    assert_closed("v1", later, b"row 1", keys)


def test_each_time_the_nonce_is_new() -> None:
    seals = {ring().seal(Secret("same"), b"", SystemEntropy()) for _ in range(50)}
    assert len({sealed[:12] for sealed in seals}) == 50


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"v1": b"k" * 31},
        {"v1": b"k" * 33},
        {"v1": "c0ffee" * 10},
        {"v1": "c0ffee" * 10 + "zzzz"},
        {"v1": " " + "5a" * 32},
        {"v1": "5a" * 32 + "\n"},
        {"v1": None},
        {"v 1": OLD},
        {"": OLD},
        {1: OLD},
        "5a" * 32,
    ],
)
def test_a_value_that_is_no_key_is_refused_and_not_shown(keys: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        KeyRing(keys)  # type: ignore[arg-type]
    frames = list(traceback.walk_tb(caught.value.__traceback__))[1:]  # without this test's own
    shown = "".join(repr(frame.f_locals) for frame, _ in frames) + str(caught.value)
    assert "c0ffee" not in shown
    assert "kkkk" not in shown
    assert "5a5a" not in shown


def test_a_ring_shows_the_names_of_its_keys_only_and_stays_where_it_is() -> None:
    keys = KeyRing({"v1": OLD, "v2": NEW})
    assert repr(keys) == "<keys v1, v2>"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="KeyRing can't be copied or pickled"):
            leave(keys)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(Unavailable, match="pip install") as caught:
        ring()
    assert caught.value.code == "missing_package"


def test_the_package_is_imported_only_when_a_ring_is_made() -> None:
    code = "import sys, demiurge.tools, demiurge.stores.sqlite.connection_store; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
