"""Masks the secrets that this process knows in texts for a person, where a text may quote anything.

Known secrets are environment variables with the name of a secret, a user and a password in a URL, and those that the
caller adds. A secret is found in all the spellings that it gets by accident (`connections.leak`); a short one only
where it stands as a word of its own. If a secret can still be read in a text after masking, in an escape that was
not undone, the whole text is withheld.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from demiurge.tools.connections.credentials import Secret
from demiurge.tools.connections.leak import LeakWatch, readings, spellings

__all__ = ["SECRET_NAME", "SHORTEST", "HideSecret", "SecretMask", "as_word", "is_short", "masked", "secrets_of"]

SECRET_NAME = re.compile(r"(?i)(^|_)(key|token|secret|password|credentials?)$")
"""The names of variables that hold secrets."""

_USER_IN_URL = re.compile(r"""(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*@""")

SHORTEST = 12
"""In characters. A shorter secret may be part of ordinary words, so it is masked only where it is a word of its own."""

_SHORTEST_VALUE = 6
"""In characters. A variable with the name of a secret and a shorter value is not masked: such a value is likely a
common word."""

_SHORTEST_LINE = 16
"""In characters. Lines at least this long, of a secret with several lines such as a key in PEM, are masked one by
one."""

_WITHHELD = "(withheld: it quotes a secret)"


def is_short(secret: str) -> bool:
    """Returns whether the secret is masked only as a word of its own; False for an empty one."""
    return 0 < len(secret) < SHORTEST


def as_word(form: str, *, more_follows: bool = False) -> re.Pattern[str]:
    """Returns a pattern for `form` where it is not part of a longer word. With `more_follows`, the end of the text
    is not the end of a word."""
    end = r"(?=\W)" if more_follows else r"(?!\w)"
    return re.compile(rf"(?<!\w){re.escape(form)}{end}")


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the secrets in an environment: value -> `[NAME]`, the text to put in its place."""
    found = {name: value.strip() for name, value in environment.items() if SECRET_NAME.search(name)}
    return {value: f"[{name}]" for name, value in found.items() if len(value) >= _SHORTEST_VALUE}


class HideSecret(Protocol):
    """Masks a secret in everything that one call records and shows. A handler that hands a secret to somebody outside
    finds it among its resources."""

    def __call__(self, secret: Secret) -> None: ...


class SecretMask:
    """Masks the secrets of an environment, and others, in texts."""

    def __init__(self, environment: Mapping[str, str], secrets: Iterable[Secret] = ()) -> None:
        known = dict.fromkeys((secret.reveal() for secret in secrets), "[secret]") | secrets_of(environment)
        known.pop("", None)
        forms = {form: (label, is_short(value)) for value, label in known.items() for form in _forms(value)}
        self._patterns = [
            (as_word(form) if short else re.compile(re.escape(form)), label)
            for form, (label, short) in sorted(forms.items(), key=lambda entry: -len(entry[0]))
        ]
        self._long = LeakWatch(Secret(value) for value in known if not is_short(value))
        self._short = [as_word(value) for value in known if is_short(value)]

    def __call__(self, text: str) -> str:
        """Returns `text` with the secrets masked; if a secret can still be read in it, a fixed phrase instead."""
        for pattern, label in self._patterns:
            text = pattern.sub(lambda _, label=label: label, text)  # type: ignore[misc]
        text = _USER_IN_URL.sub(r"\1", text)
        rest = text
        for _, label in self._patterns:
            rest = rest.replace(label, " ")  # a secret may be a word of a label
        if self._long.finds(rest) or any(word.search(read) for word in self._short for read in readings(rest)):
            return _WITHHELD
        return text


def masked(text: str, environment: Mapping[str, str], secrets: Iterable[Secret] = ()) -> str:
    """Returns `text` with the secrets of `environment` and `secrets` masked."""
    return SecretMask(environment, secrets)(text)


def _forms(value: str) -> Iterator[str]:
    """Yields the spellings of a secret and, if it has several lines, its long lines."""
    yield from spellings(value)
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE)
