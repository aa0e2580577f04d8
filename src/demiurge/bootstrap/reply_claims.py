"""Claims of the model's answers in a chat, checked against what the recorded calls of this chat gave
(`registry.recorded_evidence`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_state import ChatMessage
from demiurge.bootstrap.message_body import load_body
from demiurge.errors import InvalidValue
from demiurge.registry.citations import is_evidence_line
from demiurge.registry.claims import CheckedClaim, Grounds, check_claims
from demiurge.registry.evidence_line import evidence_line_problem, evidence_lines
from demiurge.registry.prompt_tool import ARCHETYPES
from demiurge.registry.recorded_evidence import RecordedEvidence

__all__ = ["ReplyClaims", "check_answers", "require_role"]


@dataclass(frozen=True, slots=True)
class ReplyClaims:
    """The claims of one answer of the model. `request_id`: the message that it answers; `ref`: the answer's blob;
    `erased`: its text was erased, so nothing could be checked."""

    request_id: int
    ref: str
    claims: tuple[CheckedClaim, ...]
    erased: bool = False

    @property
    def ok(self) -> bool:
        """True if every claim holds and nothing was erased."""
        return not self.erased and all(claim.problem is None for claim in self.claims)

    def to_json(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "ref": self.ref,
            "ok": self.ok,
            "erased": self.erased,
            "claims": [_claim_to_json(claim) for claim in self.claims],
        }


def require_role(role: str) -> None:
    """Raises InvalidValue (`role`) for a role that no prompt tool can have."""
    if role.lower() not in map(str.lower, ARCHETYPES):
        raise InvalidValue(f"There is no role {role}; there are {', '.join(filter(None, ARCHETYPES))}.", path="role")


def check_answers(backend: Backend, messages: Iterable[ChatMessage], role: str = "") -> Iterator[ReplyClaims]:
    """Yields the claims of each answer that has a text, oldest first. `messages`: those of the chat, from the first on.
    `role`: the role of the answers' author, for the rules of the evidence line."""
    recorded = RecordedEvidence(backend.read.get_blob)
    for message in messages:
        if message.tool is not None:
            if message.tool.ok:
                recorded.add(message.tool.name, message.message_ref, message.tool.view_ref)
        elif message.role == "assistant":
            body = load_body(backend, message.message_ref)
            if body.erased is not None:
                yield ReplyClaims(message.request_id, message.message_ref, (), erased=True)
            elif body.text.strip():
                claims = _checked(body.text, recorded.grounds, role)
                yield ReplyClaims(message.request_id, message.message_ref, claims)


def _checked(reply: str, grounds: Grounds, role: str) -> tuple[CheckedClaim, ...]:
    """Returns the claims of a reply. If only the form of its evidence line is wrong, that line has the problem."""
    claims = check_claims(reply, grounds)
    if not evidence_lines(reply) or any(claim.problem is not None for claim in claims):
        return claims
    problem = evidence_line_problem(reply, grounds, role)
    return tuple(replace(claim, problem=problem) if is_evidence_line(claim.text) else claim for claim in claims)


def _claim_to_json(claim: CheckedClaim) -> dict[str, Any]:
    problem = claim.problem
    return {
        "line": claim.line,
        "text": claim.text,
        "ok": problem is None,
        "code": problem.code if problem is not None else None,
        "detail": problem.detail if problem is not None else "",
        "message": problem.message if problem is not None else "",
    }
