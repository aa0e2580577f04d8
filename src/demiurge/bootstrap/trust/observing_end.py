"""The end of observing the tool policy, which the user names and this machine remembers.

A world that was copied or found is not observed, whatever its manifests say: the end is taken from the user's own
record of the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from demiurge.bootstrap.trust.world_profile import recall, remember
from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.world.authority.observing import LONGEST_NS

__all__ = ["check_end", "end_of_record", "keep_end"]

_NS: Final = 10**9


def check_end(until_ns: object, now_ns: int) -> None:
    """Raises InvalidValue (`bad_end`) unless the end of observing is 0, None, or within 30 days from now."""
    if until_ns is None or until_ns == 0:
        return
    if type(until_ns) is not int or not now_ns < until_ns <= now_ns + LONGEST_NS:
        raise InvalidValue("The end of observing is a time within the next 30 days.", path="until", code="bad_end")


def end_of_record(environment: Mapping[str, str], folder: Path, now_ns: int) -> int | None:
    """Returns the end of observing that this user named for the world in `folder`; None for none, for one that is over,
    and if the user's record can't be trusted."""
    try:
        kept = recall(environment, folder)
    except DemiurgeError:
        return None
    until_ns = kept.observe_until_s * _NS if kept is not None else 0
    return until_ns if now_ns < until_ns <= now_ns + LONGEST_NS else None


def keep_end(environment: Mapping[str, str], folder: Path, until_ns: int) -> str | None:
    """Remembers the end of observing, 0 for none. Returns a sentence for the user if it could not be written."""
    try:
        if remember(environment, folder, lambda kept: replace(kept, observe_until_s=until_ns // _NS)) is not None:
            return None
        why = "There is no home folder: set HOME."
    except DemiurgeError as error:
        why = error.message
    return f"The end of observing could not be saved, so it holds until the world is closed. {why}"
