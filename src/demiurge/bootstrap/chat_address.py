"""Where a chat asks its model, if its user said so: what goes on with its turn later asks there too.

No key is ever in it: an address with a user name, a password or a query is not kept, for that may be one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["ModelAddress", "address_of_chat", "with_address"]

MOST, LONGEST_URL = 32, 512


class ModelAddress(NamedTuple):
    """That this chat asks a provider at an address of its user's own."""

    chat: str
    provider: str
    base_url: str


def with_address(
    kept: tuple[ModelAddress, ...], chat: str, provider: str, base_url: str | None
) -> tuple[ModelAddress, ...]:
    """The same, with where this chat asks from now on, the latest last; None: at the usual place."""
    others = tuple(address for address in kept if address.chat != chat)
    own = (ModelAddress(chat, provider, base_url),) if base_url is not None and _holds_no_key(base_url) else ()
    return (*others, *own)[-MOST:]


def address_of_chat(kept: Iterable[ModelAddress], chat: str) -> ModelAddress | None:
    """Where this chat was last said to ask; None: at the usual place."""
    return next((address for address in kept if address.chat == chat), None)


def _holds_no_key(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return len(url) <= LONGEST_URL and "@" not in parts.netloc and not (parts.query or parts.fragment)
