"""Keep the key out of error text: providers quote it, whole or cut short by a limit of length.

Invariant: no text that passed through `scrub` holds the key, its URL-quoted form, or, at the end, a piece of
its beginning that is long enough to matter.
"""

from __future__ import annotations

from urllib.parse import quote

from demiurge.wire.errors import ProviderError

__all__ = ["scrub", "scrub_error"]

_MASK = "[key]"
_PIECE = 6


def scrub(text: str, key: str | None) -> str:
    """Return `text` without `key`."""
    if not key:
        return text
    for form in (key, quote(key, safe="")):
        text = text.replace(form, _MASK)
    body = text.rstrip("…). ")
    for length in range(min(len(key) - 1, len(body)), _PIECE - 1, -1):
        if body.endswith(key[:length]):
            return body[:-length] + _MASK + text[len(body) :]
    return text


def scrub_error(error: ProviderError, key: str | None) -> ProviderError:
    """Return an equal error whose texts don't hold the key."""
    message, detail = scrub(error.message, key), scrub(error.detail, key)
    if message == error.message and detail == error.detail:
        return error
    clean = ProviderError(message, code=error.code, status=error.status, retryable=error.retryable)
    clean.detail = detail
    return clean
