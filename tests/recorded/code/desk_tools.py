"""The tools of the recorded chats. `DESK_DIES=1` ends the process in the middle of `ship` and `order`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from demiurge import IdempotencyConfig
from demiurge.tools import ToolEffect, ToolUserError, tool


@dataclass(frozen=True)
class Stock:
    """How many there are of a part."""

    part: str
    count: int


def _die() -> None:
    if os.environ.get("DESK_DIES") == "1":
        os._exit(9)


@tool(effect=ToolEffect.READ_ONLY)
def stock(part: str) -> Stock:
    """Says how many there are of a part."""
    if part == "unicorn":
        raise ToolUserError("There are no unicorns.")
    return Stock(part, 7)


@tool(effect=ToolEffect.READ_ONLY)
def broken(part: str) -> str:
    """Fails, as a tool with a fault does."""
    raise RuntimeError(part)


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, idempotency=IdempotencyConfig())
def order(part: str, count: int = 1) -> str:
    """Orders parts, once."""
    _die()
    return f"ordered {count} {part}"


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ship(parcel: str) -> str:
    """Ships a parcel."""
    _die()
    return f"shipped {parcel}"


@tool(effect=ToolEffect.STATE_CHANGE)
def refund(parcel: str) -> str:
    """Refunds a parcel; a person is asked first."""
    return f"refunded {parcel}"


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def forbidden(what: str) -> str:
    """Is in no policy."""
    return what


TOOLS = [stock, broken, order, ship, refund, forbidden]
