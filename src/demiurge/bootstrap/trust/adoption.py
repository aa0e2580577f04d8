"""Whether a world's manifest of its own counts: only where this user took it, for this world on this machine.

A world keeps its manifest, so one that was copied, shared or found may bring somebody else's grants, triggers, secrets
and tool policy. That one was taken is kept in the user's config folder, never in the world, and by the hash of the
definitions: others that come into their place count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from demiurge.bootstrap.trust.world_profile import NotRecalled, recall, remember
from demiurge.errors import Conflict, DemiurgeError

__all__ = ["Adoption", "not_adopted"]


@dataclass(frozen=True, slots=True)
class Adoption:
    """What the user of this environment took for the world in `folder`."""

    environment: Mapping[str, str]
    folder: Path

    def holds(self, ref: str) -> bool:
        """Whether it was these definitions. A record that can't be believed says no."""
        try:
            kept = recall(self.environment, self.folder)
        except DemiurgeError:
            return False
        return kept is not None and kept.manifest == ref

    def policy_not_recalled(self) -> NotRecalled | None:
        """Why the policy that was remembered for this world can't be told, if one was: it is not to be dropped for the
        default."""
        try:
            recall(self.environment, self.folder)
        except NotRecalled as error:
            return error if error.policy is not None else None
        except DemiurgeError:
            return None
        return None

    def take(self, ref: str | None) -> str | None:
        """Remember that it is these from now on, or none. Returns what to tell the user where that can't be kept."""
        try:
            kept = recall(self.environment, self.folder)
            if (kept.manifest if kept is not None else None) == ref:
                return None
            if remember(self.environment, self.folder, lambda kept: replace(kept, manifest=ref)) is not None:
                return None
            why = "There is no home folder: set HOME."
        except DemiurgeError as error:
            why = error.message
        if ref is None:
            return None
        return f"That this world's manifest was set here can't be kept, so it counts for this process only. {why}"


def not_adopted() -> Conflict:
    return Conflict(
        "This world has a manifest of its own that was not set here; read it with `demiurge manifest get`, and set it "
        "with `demiurge manifest set DIR`, or take it as it is with `demiurge manifest adopt`.",
        code="not_adopted",
    )
