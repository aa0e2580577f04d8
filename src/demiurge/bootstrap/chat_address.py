"""The address of the model of a chat, if its user named one. Later commands use it too.

Invariant: no address contains a key. An address with a user name, a password or a query is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["ModelAddress", "address_of_chat", "with_address"]

MOST, LONGEST_URL = 32, 512


class ModelAddress(NamedTuple):
    """The address of a provider that the user named for one chat."""

    chat: str
    provider: str
    base_url: str


def with_address(
    kept: tuple[ModelAddress, ...], chat: str, provider: str, base_url: str | None
) -> tuple[ModelAddress, ...]:
    """Returns the addresses with the address of this chat as the latest. With `base_url` None the chat has the usual
    address."""
    others = tuple(address for address in kept if address.chat != chat)
    own = (ModelAddress(chat, provider, base_url),) if base_url is not None and _holds_no_key(base_url) else ()
    return (*others, *own)[-MOST:]


def address_of_chat(kept: Iterable[ModelAddress], chat: str) -> ModelAddress | None:
    """Returns the address that was last named for this chat; None: the usual one."""
    return next((address for address in kept if address.chat == chat), None)


def _holds_no_key(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return len(url) <= LONGEST_URL and "@" not in parts.netloc and not (parts.query or parts.fragment)
