"""Claims of the model's answers in a chat, checked against what the recorded calls of this chat gave.

Invariant: nothing that an answer says proves itself. A receipt counts only if a call of a core tool that this chat
recorded before the answer gave it; a quote is compared with the text that such a call read, whatever the file is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_state import ChatMessage
from demiurge.bootstrap.message_body import load_body, load_view
from demiurge.errors import Damaged, InvalidValue, NotFound
from demiurge.registry.citations import is_evidence_line
from demiurge.registry.claims import CheckedClaim, Grounds, check_claims
from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.evidence import ToolReceipt, receipt_from_json
from demiurge.registry.evidence_line import evidence_line_problem, evidence_lines
from demiurge.registry.prompt_tool import ARCHETYPES
from demiurge.tools.core.workspace import read as workspace_read
from demiurge.tools.stages.spill import spilled_ref
from demiurge.values import canonical_json
from demiurge.values.refs import parse_ref

__all__ = ["ReplyClaims", "check_answers", "require_role"]

_PACK_CALLS: Final = {f"core__{core_id}": core_id for core_id in CORE_IDS}


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
    recorded = _Recorded(backend)
    for message in messages:
        if message.tool is not None:
            recorded.add(message)
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


class _Recorded:
    """Receipts and texts that the calls of a chat gave so far."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._receipts: dict[str, ToolReceipt] = {}
        self._files: dict[str, tuple[str, ...]] = {}
        self.grounds = Grounds(self._receipts, self._files)
        """Receipts and texts that were added so far: no copy, so an answer is checked before anything else is added."""
        self._known: set[tuple[str, str]] = set()

    def add(self, message: ChatMessage) -> None:
        """Adds what the call gave that this message answers; a call that was refused or failed gave nothing."""
        outcome = message.tool
        if outcome is None or not outcome.ok:
            return
        if outcome.name == workspace_read.name:
            self._add_file(message.message_ref, load_view(self._backend, outcome.view_ref))
        elif outcome.name in _PACK_CALLS:
            self._add_receipt(_PACK_CALLS[outcome.name], self._content(message.message_ref))

    def _add_receipt(self, core_id: str, content: str) -> None:
        with suppress(InvalidValue, KeyError, TypeError):
            receipt = receipt_from_json(canonical_json.parse_object(content.rpartition("\n")[2])["receipt"])
            if receipt.tool != core_id:
                return
            self._receipts[receipt.receipt_id] = receipt
            for item in receipt.evidence:
                if (item.path, item.sha256) not in self._known:
                    self._known.add((item.path, item.sha256))
                    text = self._text(item.sha256)
                    if text is not None:
                        self._add_text(item.path, text)

    def _add_file(self, ref: str, view: Any) -> None:
        """Adds the file that `workspace__read` gave: the last bytes of its content."""
        if isinstance(view, dict) and isinstance(view.get("path"), str) and isinstance(view.get("size"), int):
            data = self._content(ref).encode("utf-8", "surrogatepass")
            if len(data) > view["size"]:
                text = data[len(data) - view["size"] :].decode("utf-8", "replace")
                self._add_text(view["path"], text)

    def _add_text(self, path: str, text: str) -> None:
        known = self._files.get(path, ())
        if text not in known:
            self._files[path] = (*known, text)

    def _content(self, ref: str) -> str:
        """Returns the text that the model was given, empty if it was erased."""
        content = load_body(self._backend, ref).text
        spilled = spilled_ref(content)
        return content if spilled is None else self._text(spilled) or ""

    def _text(self, ref: str) -> str | None:
        """Returns the text in a blob; None if it is not there any more, or no text."""
        try:
            return self._backend.read.get_blob(parse_ref(ref)).decode()
        except (NotFound, InvalidValue, Damaged, UnicodeDecodeError):
            return None


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
