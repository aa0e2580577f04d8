"""The header WWW-Authenticate, as servers write it and as they should not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.capabilities.oauth.challenge import Challenge, read_challenge, scopes_in


@pytest.mark.parametrize(
    ("header", "read"),
    [
        ("", None),
        ("Basic realm=x", None),
        ("Bearer", Challenge()),
        ("bearer", Challenge()),
        ('Bearer realm="a, b", scope="x y"', Challenge(scopes=("x", "y"))),
        ('Bearer error_description="scope=no, error=no", error=insufficient_scope', Challenge("insufficient_scope")),
        ('Basic realm="Bearer scope=no", Bearer scope="a"', Challenge(scopes=("a",))),
        ('Bearer scope="a", Bearer scope="b"', Challenge(scopes=("a",))),
        ('Bearer scope="a", scope="b"', Challenge(scopes=("a",))),
        ('Bearer scope="a\\"b"', Challenge()),
        (
            'Negotiate, Bearer resource_metadata="https://a.example/x"',
            Challenge(resource_metadata="https://a.example/x"),
        ),
        ("Bearer =", None),
        ('Bearer scope="open', Challenge()),
    ],
)
def test_a_challenge_is_read_as_the_standard_says(header: str, read: Challenge | None) -> None:
    assert read_challenge(header) == read


@given(st.text() | st.text(alphabet='Bearer scope="\\,= '))
def test_no_header_raises_and_no_scope_has_a_control_character(header: str) -> None:
    for text in (header, f"Bearer {header}"):
        found = read_challenge(text)
        assert found is None or all(scope.isascii() and scope.isprintable() for scope in found.scopes)


def test_scopes_are_taken_once_and_only_if_they_are_scopes() -> None:
    assert scopes_in('a b  a c"d \x1b[2J e\\f g:h') == ("a", "b", "g:h")
    assert scopes_in(None) == ()
    assert len(scopes_in(" ".join(map(str, range(1000))))) == 64
