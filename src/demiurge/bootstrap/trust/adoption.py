"""The manifests that this user accepted. A manifest that a world brings with it has effect only for a user who accepted
it, on this machine.

A world contains its manifest, so a world that was copied, shared or found may bring the grants, triggers, secrets and
tool policy of somebody else. The acceptance is recorded in the user's config folder, never in the world, with the hash
of the definitions: definitions that replace them are not accepted.
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
    """The manifest that the user of this environment accepted for the world in `folder`."""

    environment: Mapping[str, str]
    folder: Path

    def holds(self, ref: str) -> bool:
        """Returns whether the user accepted the definitions with this hash. False if the user's record can't be
        trusted."""
        try:
            kept = recall(self.environment, self.folder)
        except DemiurgeError:
            return False
        return kept is not None and ref in (kept.manifest, kept.former_manifest)

    def policy_not_recalled(self) -> NotRecalled | None:
        """Returns the error if a policy was remembered for this world and can't be recalled, else None. The default
        policy must not replace such a policy."""
        try:
            recall(self.environment, self.folder)
        except NotRecalled as error:
            return error if error.policy is not None else None
        except DemiurgeError:
            return None
        return None

    def take(self, ref: str | None, former: str | None = None) -> str | None:
        """Records that the user accepts the definitions with this hash (None: no definitions).

        `former`: the hash of the definitions that the world still has. If they were accepted they remain so, and a
        process that is killed before the world keeps the new ones leaves a world that runs. Returns a warning for the
        user if the record could not be written, else None."""
        try:
            kept = recall(self.environment, self.folder)
            if (kept.manifest if kept is not None else None) == ref:
                return None
            still = former if former is not None and self.holds(former) else None
            if remember(self.environment, self.folder, lambda kept: replace(kept, manifest=ref, former_manifest=still)):
                return None
            why = "There is no home folder: set HOME."
        except DemiurgeError as error:
            why = error.message
        if ref is None:
            return None
        return f"Your decision on this world's manifest could not be saved, so it counts for this process only. {why}"


def not_adopted() -> Conflict:
    return Conflict(
        "This world has a manifest of its own that was not set here; read it with `demiurge manifest get`, and set it "
        "with `demiurge manifest set DIR`, or take it as it is with `demiurge manifest adopt`.",
        code="not_adopted",
    )
