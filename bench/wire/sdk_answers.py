"""Asks the official SDKs, in an environment of their own, what they make of recorded interactions."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.tool_call.contender import Peer
from bench.tool_call.environment import Missing, interpreter
from bench.wire.interactions import Interaction

__all__ = ["Missing", "sdk_answers", "sdk_names"]

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class _Sdks(Peer):
    name: str = "wire_sdks"

    @property
    def requirements(self) -> Path:
        return _FOLDER / "sdk.txt"

    @property
    def script(self) -> Path:
        return _FOLDER / "sdk.py"


def sdk_names() -> str:
    """The SDKs and their versions."""
    pins = (line.split("==") for line in _Sdks().requirements.read_text().splitlines() if "==" in line)
    return ", ".join(f"{pin[0]} {pin[1]}" for pin in pins if pin[0] in ("anthropic", "openai"))


def sdk_answers(entries: Sequence[Interaction]) -> list[dict[str, Any]]:
    """One answer for each, as `sdk.py` describes it. Raises Missing if the environment can't be made."""
    python = interpreter(_Sdks())
    rows = (
        {
            "api": entry.api,
            "stream": entry.stream,
            "status": entry.status,
            "content_type": entry.content_type,
            "body": base64.b64encode(entry.body).decode(),
        }
        for entry in entries
    )
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    command = [str(python), "-W", "ignore", str(_Sdks().script)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Missing(done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]
