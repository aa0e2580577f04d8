"""Removes the key from texts of others: providers quote it, whole, in another encoding, or cut by a length limit.

Invariant: no text that passed through `scrub` holds the key, its form in a URL, in base64, in hexadecimal or in JSON,
or, at the end, a beginning of it that is long enough to matter. A short key is masked only where it stands as a word of
its own: its letters occur in ordinary words too.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from demiurge.tools.connections.leak import spellings
from demiurge.tools.execution.secret_mask import SHORTEST, as_word, is_short
from demiurge.wire.errors import ProviderError

__all__ = ["SHORT_SECRET", "scrub", "scrub_error", "written_forms"]

_MASK = "[key]"
_PIECE = 6
SHORT_SECRET = f"shorter than {SHORTEST} characters, so it is masked as a whole word only, and a plain word not at all"
"""The warning to a user about such a secret."""
_PERCENT = re.compile(r"%[0-9A-F]{2}")


def written_forms(key: str) -> tuple[str, ...]:
    """Returns the encodings in which a key may be quoted, the longest first."""
    quoted = quote(key, safe="")
    forms = {*spellings(key), quoted, _PERCENT.sub(lambda found: found[0].lower(), quoted), quote(key)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def scrub(text: str, key: str | None) -> str:
    """Returns `text` without `key`."""
    if not key:
        return text
    if is_short(key):
        for form in written_forms(key):
            text = as_word(form).sub(_MASK, text)
        return text
    for form in written_forms(key):
        text = text.replace(form, _MASK)
    body = text.rstrip("…). ")
    for length in range(min(len(key) - 1, len(body)), _PIECE - 1, -1):
        if body.endswith(key[:length]):
            return body[:-length] + _MASK + text[len(body) :]
    return text


def scrub_error(error: ProviderError, key: str | None) -> ProviderError:
    """Returns an equal error whose texts do not hold the key."""
    message, detail = scrub(error.message, key), scrub(error.detail, key)
    if message == error.message and detail == error.detail:
        return error
    clean = ProviderError(message, code=error.code, status=error.status, retryable=error.retryable)
    clean.detail = detail
    return clean
