"""The record of a message that was erased: who erased it, why and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.public_fields import shown_text
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.typed_lines import message_of_line
from demiurge.world.retention.erasure import ERASURES

__all__ = ["erased_blob", "is_erased_line"]


def erased_blob(backend: Backend, ref: str) -> dict[str, Any]:
    """Returns `{actor, why, at_ms}` of the last time that the blob was erased. `why` is empty if no record says it, as
    in a fork of the time before."""
    found: dict[str, Any] = {"actor": "", "why": "", "at_ms": None}
    for record in Journal(backend).views(ERASURES):
        body = record["body"]
        if record["kind"] == "erased" and body["ref"] == ref:
            at_ms = record["time_ns"] // 1_000_000
            found = {"actor": body["actor"], "why": shown_text(body["why"]), "at_ms": at_ms}
    return found


def is_erased_line(backend: Backend) -> Callable[[str], bool]:
    """Returns a function that tells whether a typed line became a message that was erased."""
    erased = {record.body["ref"] for record in Journal(backend).read(ERASURES) if record.kind == "erased"}
    return lambda line: message_of_line(line) in erased
