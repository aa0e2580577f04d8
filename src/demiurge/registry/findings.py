"""`Finding`: one remark of a check about a proposal, with the place that it is about."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A remark about `field` (e.g. `prompt`, `testCases[1].reply`) from character `start` up to `end`. `block`: the
    proposal can't be approved with it; `warn`: a reviewer should look at it. `code` is stable, `message` is a
    sentence for the author."""

    code: str
    field: str
    start: int
    end: int
    severity: Literal["block", "warn"]
    message: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
