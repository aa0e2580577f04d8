"""Secrets in memory: texts that are never shown, copied or sent by accident.

A `Secret` returns its text only from `reveal()`: not in `repr` or a format, not to a log, not to `copy`, `pickle` or
`json`, and not to a debugger that lists attributes or the variables of a traceback. So no function here raises while
one of its variables holds such a text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, SupportsIndex, final

from demiurge.errors import InvalidValue

__all__ = ["MAX_SECRET_CHARACTERS", "Credentials", "Secret", "Uncopyable"]

MAX_SECRET_CHARACTERS = 16_384

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


class Uncopyable:
    """Refuses `copy`, `deepcopy` and `pickle` with a TypeError."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{type(self).__name__} can't be copied or pickled")


@final
class Secret(Uncopyable):
    """A secret text, which only `reveal()` returns."""

    __slots__ = ("_read",)

    def __init__(self, text: str) -> None:
        self._read: Callable[[], str] = lambda: text  # in a closure, so that no listing of attributes shows the text

    def reveal(self) -> str:
        return self._read()

    def __repr__(self) -> str:
        return "<secret>"


@final
@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Credentials(Uncopyable):
    """Credentials for a provider: an access token (or API key, or app password), and how to send it.

    It is sent as a Bearer token; with `username` as the password of Basic authentication; with `header` unchanged,
    under that name. `refresh_token` leaves the broker only for a refresh. `expires_at_ms`: milliseconds since 1970;
    None: never. Raises InvalidValue for a secret that is empty, longer than `MAX_SECRET_CHARACTERS`, has spaces
    around it, or characters that cannot be printed."""

    access_token: Secret
    refresh_token: Secret | None
    username: str | None
    header: str | None
    expires_at_ms: int | None

    def __init__(
        self,
        access_token: str,
        *,
        refresh_token: str | None = None,
        username: str | None = None,
        header: str | None = None,
        expires_at_ms: int | None = None,
    ) -> None:
        problem = _problem(access_token, refresh_token, username, header, expires_at_ms)
        if problem:
            access_token, refresh_token = "", None
            raise InvalidValue(problem[1], path=problem[0])
        freeze = object.__setattr__
        freeze(self, "access_token", Secret(access_token))
        freeze(self, "refresh_token", None if refresh_token is None else Secret(refresh_token))
        freeze(self, "username", username)
        freeze(self, "header", header)
        freeze(self, "expires_at_ms", expires_at_ms)

    def __repr__(self) -> str:
        return "<credentials>"

    def headers(self) -> dict[str, str]:
        """Returns the header that authenticates a request."""
        if self.header is not None:
            return {self.header: self.access_token.reveal()}
        if self.username is not None:
            return {"Authorization": f"Basic {_basic(self.username, self.access_token)}"}
        return {"Authorization": f"Bearer {self.access_token.reveal()}"}

    def to_send(self) -> Credentials:
        """Returns the part that a handler needs: without the refresh token."""
        return self._with(None)

    def refreshed_by(self, fresh: Credentials) -> Credentials:
        """Returns `fresh`, with this refresh token if `fresh` has none (RFC 6749, 6: the old one then stays valid)."""
        return fresh if fresh.refresh_token is not None else fresh._with(self.refresh_token)

    def _with(self, refresh_token: Secret | None) -> Credentials:
        other = object.__new__(Credentials)
        for name in Credentials.__slots__:
            object.__setattr__(other, name, getattr(self, name))
        object.__setattr__(other, "refresh_token", refresh_token)
        return other

    def pack(self) -> Secret:
        """Returns all fields that are not None as compact JSON."""
        fields = (
            ("access_token", self.access_token),
            ("refresh_token", self.refresh_token),
            ("username", self.username),
            ("header", self.header),
            ("expires_at_ms", self.expires_at_ms),
        )
        present = {name: value for name, value in fields if value is not None}
        return Secret(json.dumps(present, default=_revealed, ensure_ascii=False, separators=(",", ":")))

    @classmethod
    def unpack(cls, packed: Secret) -> Credentials | None:
        """The inverse of `pack`. Returns None for anything else."""
        try:
            return cls(**json.loads(packed.reveal()))
        except (InvalidValue, TypeError, ValueError, RecursionError):
            return None


def _revealed(secret: object) -> str:
    assert isinstance(secret, Secret)
    return secret.reveal()


def _basic(username: str, password: Secret) -> str:
    return b64encode(f"{username}:{password.reveal()}".encode()).decode()


def _problem(
    access_token: object, refresh_token: object, username: object, header: object, expires_at_ms: object
) -> tuple[str, str] | None:
    """Returns the faulty field and why it is wrong, without anything of its value; None if there is no fault."""
    if not _is_fit(access_token):
        return "access_token", "must be 1 to 16384 printable characters without spaces around them"
    if refresh_token is not None and not _is_fit(refresh_token):
        return "refresh_token", "must be 1 to 16384 printable characters without spaces around them"
    if username is not None and (not _is_fit(username) or ":" in str(username)):
        return "username", "must be printable and have no colon"
    if header is not None and not (isinstance(header, str) and _HEADER.fullmatch(header)):
        return "header", "must be the name of an HTTP header"
    if username is not None and header is not None:
        return "header", "can't go with a username"
    if expires_at_ms is not None and type(expires_at_ms) is not int:
        return "expires_at_ms", "must be a whole number, milliseconds since 1970"
    return None


def _is_fit(text: object) -> bool:
    return (
        isinstance(text, str) and 0 < len(text) <= MAX_SECRET_CHARACTERS and text.isprintable() and text == text.strip()
    )
