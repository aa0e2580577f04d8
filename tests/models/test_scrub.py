from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demiurge.models.scrub import scrub, scrub_error
from demiurge.wire.errors import ProviderError

KEY = "canary/0123+456789"


@given(st.text(), st.text())
def test_the_key_is_nowhere_in_the_text(before: str, after: str) -> None:
    assert KEY not in scrub(before + KEY + after, KEY)


@given(st.text(max_size=20), st.integers(6, len(KEY) - 1))
def test_the_beginning_of_a_key_is_masked_where_the_text_was_cut(before: str, length: int) -> None:
    assert not scrub(before + KEY[:length] + "…", KEY).rstrip("…").endswith(KEY[:6])


def test_the_url_quoted_form_of_a_key_is_masked() -> None:
    assert scrub("at /v1?key=canary%2F0123%2B456789&x", KEY) == "at /v1?key=[key]&x"


@given(st.text())
def test_without_a_key_nothing_changes(text: str) -> None:
    assert scrub(text, None) == text


def test_an_error_keeps_all_but_the_key() -> None:
    error = scrub_error(ProviderError(code="invalid_request", status=400, detail=f"no {KEY} here"), KEY)
    assert (error.code, error.status, error.retryable, error.detail) == (
        "invalid_request",
        400,
        False,
        "no [key] here",
    )
    assert KEY not in str(error)
    clean = ProviderError(code="timeout")
    assert scrub_error(clean, KEY) is clean


def test_a_short_key_is_masked_as_a_word_only() -> None:
    assert scrub("no connection to e: key e, e.", "e") == "no connection to [key]: key [key], [key]."
    assert scrub("conn3ction: 3 of 33", "3") == "conn3ction: [key] of 33"
    assert scrub("at a-b and xa-b", "a-b") == "at [key] and xa-b"


@given(st.text(min_size=1, max_size=11, alphabet=st.characters(categories=("L", "N"))))
def test_a_short_key_eats_no_word(key: str) -> None:
    assert scrub(f"x{key} {key}x _{key}_", key) == f"x{key} {key}x _{key}_"
    assert scrub(f"({key})", key) == "([key])"
