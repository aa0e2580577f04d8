"""Reads the challenge of a protected address: the header WWW-Authenticate of an answer 401 or 403 (RFC 6750)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Challenge", "read_challenge", "scopes_in"]

MAX_HEADER: Final = 8192
MAX_SCOPES: Final = 64

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf'\s*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))\s*(?:,|$)')
_SCHEME = re.compile(rf"\s*({_WORD})(?=\s+{_WORD}\s*=|\s*,|\s*$)\s*,?")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")


@dataclass(frozen=True, slots=True)
class Challenge:
    """The Bearer challenge of an answer; each field is empty if the server did not say it."""

    error: str = ""
    scopes: tuple[str, ...] = ()
    resource_metadata: str = ""


def read_challenge(header: str) -> Challenge | None:
    """Returns the first Bearer challenge in the value of WWW-Authenticate; None if there is none that can be read."""
    rest, scheme, bearer = header[:MAX_HEADER], "", dict[str, str]()
    found = False
    while rest.strip():
        parameter = _PARAMETER.match(rest) if scheme else None
        if parameter is not None:
            if scheme == "bearer":
                name, quoted, plain = parameter.groups()
                bearer.setdefault(name.lower(), plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
            rest = rest[parameter.end() :]
            continue
        started = _SCHEME.match(rest)
        if started is None or found:
            break
        scheme = started[1].lower()
        found = scheme == "bearer"
        rest = rest[started.end() :]
    if not found:
        return None
    return Challenge(bearer.get("error", ""), scopes_in(bearer.get("scope")), bearer.get("resource_metadata", ""))


def scopes_in(text: object) -> tuple[str, ...]:
    """Returns the scopes in a space-separated text, each once; what is no scope by RFC 6749 is left out."""
    words = text.split(" ") if isinstance(text, str) else []
    return tuple(dict.fromkeys(word for word in words if _SCOPE.fullmatch(word)))[:MAX_SCOPES]
