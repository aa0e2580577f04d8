"""The calls that this user approved, in this world and this folder. A call does not begin with the approval of anybody
else.

The journal says that a call was approved, but somebody else may have written that: a world may be copied, shared,
found, or lent and given back. So an approval is written to the user's config folder before it is journaled, bound to
the question that was asked. An approval in the journal without such a record has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from demiurge.bootstrap.trust.world_profile import WorldProfile, recall, remember
from demiurge.errors import DemiurgeError
from demiurge.values import cbor
from demiurge.world.state import OpenIntent

__all__ = ["LocalApprovals"]

MOST = 256
"""The number of latest approvals and rules that are kept: an approval is of no use once its call has begun."""

RULE = "rule:"
"""The prefix of a standing rule's id."""


class LocalApprovals:
    """The approvals that this user gave for calls of the world in `folder`. An approval whose record could not be
    written counts for this process only."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder
        self._here: set[str] = set()

    def add(self, intent: OpenIntent) -> str | None:
        """Records that the user approved `intent`. Returns a warning for the user if the record could not be written,
        else None."""
        return self._add(_digest(intent))

    def add_rule(self, rule: str) -> str | None:
        """Records that the user made the standing rule with this id. Returns as `add`."""
        return self._add(f"{RULE}{rule}")

    def _add(self, digest: str) -> str | None:
        self._here.add(digest)
        try:
            if remember(self._environment, self._folder, lambda kept: _with(kept, digest)) is not None:
                return None
            why = "There is no home folder: set HOME."
        except DemiurgeError as error:
            why = error.message
        return f"The approval could not be saved, so it counts for this process only. {why}"

    def holds(self, intent: OpenIntent) -> bool:
        """Returns whether the user approved `intent`. False if the user's record can't be trusted."""
        digest = _digest(intent)
        try:
            return digest in self._here or digest in self._kept()
        except DemiurgeError:
            return False

    def _kept(self) -> tuple[str, ...]:
        return (recall(self._environment, self._folder) or WorldProfile()).approved


def _with(kept: WorldProfile, digest: str) -> WorldProfile:
    if digest in kept.approved:
        return kept
    given = (*kept.approved, digest)
    rules = [each for each in given if each.startswith(RULE)][-MOST:]
    calls = [each for each in given if not each.startswith(RULE)][-MOST:]
    return replace(kept, approved=(*rules, *calls))


def _digest(intent: OpenIntent) -> str:
    if intent.approved is not None and "rule" in intent.approved:
        return f"{RULE}{intent.approved['rule']}"
    return cbor.digest([intent.id, dict(intent.approval or {})]).hex()
