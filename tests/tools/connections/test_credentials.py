"""A secret is shown to who asks for it by name, and to nobody else."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import pprint
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from demiurge.errors import InvalidValue
from demiurge.tools import Credentials, Secret
from demiurge.tools.connections.credentials import MAX_SECRET_CHARACTERS

CANARY = "canary-9b1d-token"
WHOLE = Credentials(CANARY, refresh_token=f"refresh-{CANARY}", username="ada", expires_at_ms=5)
THINGS = [Secret(CANARY), WHOLE]

fitting = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=50)


@pytest.mark.parametrize("thing", THINGS, ids=["secret", "credentials"])
@pytest.mark.parametrize(
    "show",
    [repr, str, ascii, "{}".format, "{!r:>60}".format, "%s".__mod__, pprint.pformat, lambda it: f"{it} {it!r}"],
)
def test_no_text_form_of_credentials_shows_the_secret(thing: Any, show: Callable[[Any], str]) -> None:
    assert CANARY not in show(thing)
    assert CANARY not in show([thing])
    assert CANARY not in show({"key": (thing,)})


@pytest.mark.parametrize("thing", THINGS, ids=["secret", "credentials"])
@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps], ids=lambda f: f.__name__)
def test_secrets_can_not_be_pickled_copied_or_dumped(thing: Any, leave: Callable[[Any], Any]) -> None:
    for held in (thing, [thing] if leave is not copy.copy else thing):
        with pytest.raises(TypeError) as caught:
            leave(held)
        assert CANARY not in str(caught.value)
    assert CANARY.encode() not in to_json({"it": thing}, fallback=str)


def test_asdict_refuses_credentials() -> None:
    with pytest.raises(TypeError):
        dataclasses.asdict(WHOLE)


@pytest.mark.parametrize("thing", THINGS, ids=["secret", "credentials"])
def test_no_attribute_of_credentials_holds_the_secret(thing: Any) -> None:
    assert CANARY not in repr(inspect.getmembers(thing))
    assert not hasattr(thing, "__dict__")


def test_credentials_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        WHOLE.username = "eve"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("credentials", "headers"),
    [
        (Credentials("t0k"), {"Authorization": "Bearer t0k"}),
        (Credentials("Open sesame", username="Aladdin"), {"Authorization": "Basic QWxhZGRpbjpPcGVuIHNlc2FtZQ=="}),
        (Credentials("k3y", header="X-Api-Key"), {"X-Api-Key": "k3y"}),
    ],
)
def test_the_header_that_each_kind_is_sent_in(credentials: Credentials, headers: dict[str, str]) -> None:
    assert credentials.headers() == headers
    assert credentials.to_send().headers() == headers


def test_credentials_to_send_have_no_refresh_token() -> None:
    sent = WHOLE.to_send()
    assert (sent.refresh_token, sent.access_token.reveal(), sent.username) == (None, CANARY, "ada")


def test_a_refresh_token_is_taken_over_unless_there_is_a_new_one() -> None:
    taken = WHOLE.refreshed_by(Credentials("new", expires_at_ms=9)).refresh_token
    assert taken is not None
    assert taken.reveal() == f"refresh-{CANARY}"
    fresh = Credentials("new", refresh_token="newer")
    assert WHOLE.refreshed_by(fresh) is fresh
    assert Credentials("old").refreshed_by(Credentials("new")).refresh_token is None


@settings(deadline=None)
@given(
    fitting,
    st.none() | fitting,
    st.none() | fitting.filter(lambda text: ":" not in text),
    st.none() | st.integers(),
)
def test_packed_credentials_can_be_unpacked(
    token: str, refresh: str | None, username: str | None, expires_at_ms: int | None
) -> None:
    packed = Credentials(token, refresh_token=refresh, username=username, expires_at_ms=expires_at_ms).pack()
    back = Credentials.unpack(packed)
    assert back is not None
    assert back.access_token.reveal() == token
    assert (back.refresh_token and back.refresh_token.reveal()) == refresh
    assert (back.username, back.expires_at_ms) == (username, expires_at_ms)
    assert back.pack().reveal() == packed.reveal()


@pytest.mark.parametrize("text", ["", "null", "[]", '{"token":"t"}', '{"access_token":1}', "{" * 9999, "[" * 99999])
def test_a_value_that_is_none_is_not_unpacked(text: str) -> None:
    assert Credentials.unpack(Secret(text)) is None


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"access_token": ""}, "access_token"),
        ({"access_token": f"{CANARY}\n"}, "access_token"),
        ({"access_token": f" {CANARY}"}, "access_token"),
        ({"access_token": f"{CANARY}\r\nX-Evil: 1"}, "access_token"),
        ({"access_token": f"{CANARY}\ud800"}, "access_token"),
        ({"access_token": CANARY * MAX_SECRET_CHARACTERS}, "access_token"),
        ({"access_token": None}, "access_token"),
        ({"access_token": CANARY.encode()}, "access_token"),
        ({"access_token": CANARY, "refresh_token": ""}, "refresh_token"),
        ({"access_token": CANARY, "username": "a:b"}, "username"),
        ({"access_token": CANARY, "header": "X Api"}, "header"),
        ({"access_token": CANARY, "header": "X:"}, "header"),
        ({"access_token": CANARY, "header": "X", "username": "ada"}, "header"),
        ({"access_token": CANARY, "expires_at_ms": 1.5}, "expires_at_ms"),
        ({"access_token": CANARY, "expires_at_ms": True}, "expires_at_ms"),
    ],
)
def test_a_refusal_names_the_field_and_quotes_nothing(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Credentials(**arguments)
    assert caught.value.path == path
    frames = list(traceback.walk_tb(caught.value.__traceback__))[1:]  # without this test's own
    assert CANARY not in str(caught.value) + repr([frame.f_locals for frame, _ in frames])
