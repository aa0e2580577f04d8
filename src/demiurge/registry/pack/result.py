"""The outcome of a core tool's work: a value with its evidence, or one error with a code.

A tool raises `GatherError` if it has nothing to give. A tool that reads several files puts the error of a single file
into its value, as `{"path": ..., **error.to_json()}`, and goes on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from demiurge.errors import DemiurgeError
from demiurge.registry.evidence import EvidenceItem

__all__ = ["GatherError", "Gathered", "dry_run_of"]


class GatherError(DemiurgeError):
    """A tool could not do what it was asked. Codes: `invalid_args`, `invalid_path`, `unreadable`,
    `too_large`, `too_many_files`."""

    code = "invalid_args"

    def to_json(self) -> dict[str, Any]:
        """Returns `{"ok": False, "error": {"code", "message"}}`, the one form of an error in results."""
        return {"ok": False, "error": {"code": self.code, "message": self.message}}


@dataclass(frozen=True, slots=True)
class Gathered:
    """The `value` of a tool, JSON-ready and without the key `ok`, and the `evidence` that it read."""

    value: dict[str, Any]
    evidence: list[EvidenceItem] = field(default_factory=list)


def dry_run_of(params: Any) -> Gathered:
    """Returns the outcome of a call with `dry_run`: its arguments with their defaults. Nothing is read."""
    return Gathered(
        {"dry_run": True, "args": {name: value for name, value in asdict(params).items() if name != "dry_run"}}
    )
