"""Texts without the secrets that this process knows: for a person's eyes, where a text may quote anything.

Known are variables of the environment that are named like secrets, a user and a password in a URL, and what the caller
adds. A secret is found in the spellings that it gets by accident (`connections.leak`). A text in which one can still be
read after that, in an escape that was not undone, is withheld as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from demiurge.tools.connections.credentials import Secret
from demiurge.tools.connections.leak import LeakWatch, spellings

__all__ = ["SECRET_NAME", "SHORTEST_SECRET", "USER_IN_URL", "masked", "secrets_of"]

SECRET_NAME = re.compile(r"(?i)(^|_)(key|token|secret|password|credentials?)$")
"""The names of variables that hold secrets."""

USER_IN_URL = re.compile(r"""(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*@""")

SHORTEST_SECRET = 6
"""In characters. A shorter value is a word that would be cut out of everything."""

_SHORTEST_LINE = 16
"""In characters: of a line of a secret that has several, as a key in PEM has."""

_WITHHELD = "(withheld: it quotes a secret)"


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets in an environment: by value, what to write in its place, `[NAME]`."""
    found = {name: value.strip() for name, value in environment.items() if SECRET_NAME.search(name)}
    return {value: f"[{name}]" for name, value in found.items() if len(value) >= SHORTEST_SECRET}


def masked(text: str, environment: Mapping[str, str], secrets: Iterable[Secret] = ()) -> str:
    """`text` without the environment's secrets and these."""
    known = dict.fromkeys((secret.reveal() for secret in secrets), "[secret]") | secrets_of(environment)
    known = {value: label for value, label in known.items() if len(value) >= SHORTEST_SECRET}
    forms = {form: label for value, label in known.items() for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, forms[form])
    text = USER_IN_URL.sub(r"\1", text)
    return _WITHHELD if LeakWatch(map(Secret, known)).finds(text) else text


def _forms(value: str) -> Iterator[str]:
    yield from spellings(value)
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE)
