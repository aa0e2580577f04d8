"""A tool that draws once and returns an image, to be killed."""

from __future__ import annotations

from typing import Any

from tests.wire.test_attachments import PNG

from demiurge import IdempotencyConfig, Redaction, ToolResult, tool
from demiurge.testing import Outside
from demiurge.tools import Image


def plotter(outside: Outside) -> list[Any]:
    @tool(idempotency=IdempotencyConfig(scope="plot"), redaction=Redaction.message_only(parts=True))
    def plot(name: str) -> ToolResult[None]:
        """Plot."""
        outside.did(f"plot of {name}")
        return ToolResult("One plot.", parts=[Image(data=PNG, name=name)])

    return [plot]
