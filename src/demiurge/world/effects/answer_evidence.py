"""The check of an answer's evidence, as part of the effect that brings the answer.

The verdict is in the effect's receipt, so a replay takes it from there and never computes it again. The chat's reducer
decides what follows from it: a mark, another request, a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from demiurge.registry.evidence import findings_blob
from demiurge.values.refs import Ref
from demiurge.wire.items import Completion
from demiurge.world.effect import EffectCall

__all__ = ["findings_about"]


async def findings_about(call: EffectCall, answer: Completion, answer_ref: Ref) -> bytes | None:
    """Returns the citations of an answer that do not hold, as `findings_blob` writes them; None if
    there are none, and for an answer that is not checked: its request asks for no check (`check_evidence`), the
    manifest's setting `evidence` is `off`, or the answer calls tools."""
    is_off = call.manifest.settings.get("evidence") == "off"
    text = "" if is_off or answer.tool_calls or not call.intent.params.get("check_evidence") else answer.text
    if "rcpt_" not in text and "evidence" not in text.lower():
        return None  # before the modules of the check are imported, which takes a fifth of a second
    messages = (call.services.state(call.unit).cell or {}).get("messages") or ()
    return await asyncio.to_thread(_checked, call, text, answer_ref, messages)


def _checked(call: EffectCall, text: str, answer_ref: Ref, messages: Iterable[Mapping[str, Any]]) -> bytes | None:
    claims, recorded = import_module("demiurge.registry.claims"), import_module("demiurge.registry.recorded_evidence")
    if not claims.cites_evidence(text):
        return None
    given = recorded.RecordedEvidence(call.get_blob)
    for message in messages:
        tool = message.get("tool")
        if tool is not None and tool["ok"]:
            given.add(tool["name"], message["message_ref"], tool.get("view_ref"))
    found = recorded.findings_of(claims.check_citations(text, given.grounds))
    return findings_blob(answer_ref, found) if found else None
