"""`ProgramObjects`: the objects of the program that opened a world, for the effects that its process performs.

They are never recorded, and no other process has them. A result that came through them is in the receipt, so replay
needs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demiurge.models.port import LanguageModel
from demiurge.tools.execution.ports import BlobSink

__all__ = ["ProgramObjects"]


@dataclass(frozen=True, slots=True)
class ProgramObjects:
    """`resources`: what handlers find in `context.resources` beside the world's capabilities, by type. `blobs`: gets a
    copy of each large result. `model`: answers requests to the provider `python`."""

    resources: Mapping[Any, Any] = field(default_factory=dict)
    blobs: BlobSink | None = None
    model: LanguageModel | None = None
