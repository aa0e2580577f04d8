"""What a user runs a world with: tools, policy, where its chats ask their models, and a manifest of the world's own, so
that it need not be said again.

It is kept in the user's config folder, never in the world: a world that was copied, shared or found names no code that
is run here, and has no manifest that counts here. A record is for one world in one place: the world's folder has a
random mark, and the record its digest, so another world that takes the place has none. No key is ever in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from demiurge.bootstrap.secrets import config_folder
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.secret_file import locked_folder, read_closed, write_closed
from demiurge.stores.secret_key import made_key, read_key
from demiurge.values import canonical_json
from demiurge.values.clock import SystemEntropy

__all__ = ["Asked", "Remembered", "asked_at", "forget", "recall", "remember", "remember_address"]

MARK = "mark.key"
LONGEST = 256 * 1024
MOST_ADDRESSES, LONGEST_URL = 32, 512


class Asked(NamedTuple):
    """That this chat asks a provider at an address of its user's own."""

    chat: str
    provider: str
    base_url: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """`tools`: dotted module names, looked for in `folder`; `policy`: an absolute path; `manifest`: the hash of the
    world's own definitions; `addresses`: of a chat one at most, the latest last; `approved`: see `approved.Approved`;
    `code`: see `own_code.OwnCode`. Nothing of it is code."""

    folder: str = ""
    tools: tuple[str, ...] = ()
    policy: str | None = None
    manifest: str | None = None
    addresses: tuple[Asked, ...] = ()
    approved: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


def recall(environment: Mapping[str, str], world: Path) -> Remembered | None:
    """What was remembered of the world in this folder; None: nothing, or not of this one. Raises Unavailable for a
    record that others could have changed, or that is none."""
    place = _place(environment, world)
    data = read_closed(place, LONGEST) if place is not None else None
    if place is None or data is None:
        return None
    try:
        found = canonical_json.parse_object(data)
        asked = tuple(Asked(*map(str, each)) for each in found.get("addresses", ()))
        kept = Remembered(
            found["folder"],
            tuple(found["tools"]),
            found["policy"],
            found.get("manifest"),
            asked,
            tuple(found.get("approved", ())),
            tuple(found.get("code", ())),
        )
        mark = found["mark"]
    except (DemiurgeError, LookupError, TypeError) as error:
        raise Unavailable(f"{place} is damaged: remove it, and name the tools with --tools.") from error
    return kept if mark == _digest(world) else None


def remember(environment: Mapping[str, str], world: Path, **changes: Any) -> Remembered | None:
    """Keep these fields of `Remembered` in place of what they were, and return all; None where no home folder is known.
    Raises Unavailable."""
    place = _place(environment, world)
    if place is None:
        return None
    made_key(world / MARK, SystemEntropy())
    with locked_folder(place.parent):
        given = replace(recall(environment, world) or Remembered(), **changes)
        node = {**asdict(given), "mark": _digest(world), "world": str(_resolved(world))}
        node |= {"tools": list(given.tools), "approved": list(given.approved), "code": list(given.code)}
        node["addresses"] = [list(asked) for asked in given.addresses]
        write_closed(place, canonical_json.encode(node))
    return given


def remember_address(
    environment: Mapping[str, str], world: Path, chat: str, provider: str, base_url: str | None
) -> None:
    """Keep where a chat asks its provider; None: at the usual place. An address with a user name, a password or a query
    in it is not kept, for that may be a key. Raises Unavailable."""
    kept = (recall(environment, world) or Remembered()).addresses
    others = tuple(asked for asked in kept if asked.chat != chat)
    own = (Asked(chat, provider, base_url),) if base_url is not None and _holds_no_key(base_url) else ()
    if kept != (*others, *own):
        remember(environment, world, addresses=(*others, *own)[-MOST_ADDRESSES:])


def asked_at(environment: Mapping[str, str], world: Path, chat: str) -> Asked | None:
    """Where this chat was last said to ask; None: at the usual place. Raises Unavailable."""
    kept = recall(environment, world) or Remembered()
    return next((asked for asked in kept.addresses if asked.chat == chat), None)


def _holds_no_key(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return len(url) <= LONGEST_URL and "@" not in parts.netloc and not (parts.query or parts.fragment)


def forget(environment: Mapping[str, str], world: Path) -> None:
    """Remember no tools, no policy and no addresses of the world in this folder; with a record that can't be read,
    nothing."""
    place = _place(environment, world)
    try:
        kept = recall(environment, world)
    except Unavailable:
        kept = None
    if kept is not None and (kept.manifest is not None or kept.approved or kept.code):
        remember(environment, world, folder="", tools=(), policy=None, addresses=())
    elif place is not None:
        place.unlink(missing_ok=True)


def _place(environment: Mapping[str, str], world: Path) -> Path | None:
    config = config_folder(environment)
    if config is None:
        return None
    return config / "worlds" / f"{hashlib.sha256(str(_resolved(world)).encode()).hexdigest()[:32]}.json"


def _digest(world: Path) -> str | None:
    mark = read_key(world / MARK)
    return hashlib.sha256(mark.reveal().encode()).hexdigest() if mark is not None else None


def _resolved(world: Path) -> Path:
    return world.resolve()
