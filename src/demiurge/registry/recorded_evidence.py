"""Receipts and texts that the recorded calls of a chat gave, as the grounds on which an answer's claims are checked.

Invariant: nothing that an answer says proves itself. A receipt counts only if a call of a core tool that this chat
recorded before the answer gave it; a quote is compared with the text that such a call read, whatever the file is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from demiurge.errors import Damaged, InvalidValue, NotFound
from demiurge.registry.claims import CheckedClaim, Grounds
from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.evidence import EvidenceFinding, ToolReceipt, receipt_from_json
from demiurge.tools.core.workspace import read as workspace_read
from demiurge.tools.stages.spill import spilled_ref
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, parse_ref

__all__ = ["RecordedEvidence", "findings_of"]

MAX_DETAIL: Final = 120
"""The most characters of a finding's detail."""
MAX_FINDINGS: Final = 20
"""The most findings that are kept of one answer."""

_PACK_CALLS: Final = {f"core__{core_id}": core_id for core_id in CORE_IDS}


def findings_of(claims: Iterable[CheckedClaim]) -> tuple[EvidenceFinding, ...]:
    """Returns what is wrong with claims: the first `MAX_FINDINGS` of those that do not hold."""
    wrong = [(claim.line, claim.problem) for claim in claims if claim.problem is not None]
    cut = [(line, type(why)(why.code, _cut(why.detail))) for line, why in wrong[:MAX_FINDINGS]]
    return tuple(EvidenceFinding(line, why.code, why.detail, why.message) for line, why in cut)


class RecordedEvidence:
    """Receipts and texts that the calls of a chat gave so far. `read` returns the bytes of a blob, and raises NotFound
    for one that is not stored (any more), Damaged, InvalidValue."""

    def __init__(self, read: Callable[[Ref], bytes]) -> None:
        self._read = read
        self._receipts: dict[str, ToolReceipt] = {}
        self._files: dict[str, tuple[str, ...]] = {}
        self.grounds = Grounds(self._receipts, self._files)
        """Receipts and texts that were added so far: no copy, so an answer is checked before anything else is added."""
        self._known: set[tuple[str, str]] = set()

    def add(self, tool: str, message_ref: str, view_ref: str | None) -> None:
        """Adds what a call of `tool` gave that ended well: `message_ref` is the message for the model, `view_ref` the
        public view. A result that can't be read any more gives nothing."""
        if tool == workspace_read.name:
            self._add_file(message_ref, view_ref)
        elif tool in _PACK_CALLS:
            self._add_receipt(_PACK_CALLS[tool], self._content(message_ref))

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

    def _add_file(self, message_ref: str, view_ref: str | None) -> None:
        """Adds the file that `workspace__read` gave: the last bytes of its content."""
        with suppress(InvalidValue, KeyError, TypeError):
            view = canonical_json.parse_object((self._text(view_ref) if view_ref is not None else None) or "{}")
            path, size = view["path"], view["size"]
            data = self._content(message_ref).encode("utf-8", "surrogatepass")
            if isinstance(path, str) and isinstance(size, int) and len(data) > size:
                self._add_text(path, data[len(data) - size :].decode("utf-8", "replace"))

    def _add_text(self, path: str, text: str) -> None:
        known = self._files.get(path, ())
        if text not in known:
            self._files[path] = (*known, text)

    def _content(self, message_ref: str) -> str:
        """Returns the text that the model was given, empty if it can't be read any more."""
        with suppress(InvalidValue):
            content = _words(canonical_json.parse_object(self._text(message_ref) or "{}"))
            spilled = spilled_ref(content)
            return content if spilled is None else self._text(spilled) or ""
        return ""

    def _text(self, ref: str) -> str | None:
        """Returns the text in a blob; None if it is not there any more, or no text."""
        try:
            return self._read(parse_ref(ref)).decode()
        except (NotFound, InvalidValue, Damaged, UnicodeDecodeError):
            return None


def _words(message: Mapping[str, Any]) -> str:
    """Returns the text of a message blob (`world.messages`)."""
    content = message.get("content", "")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return "".join(part["text"] for part in parts if part.get("type") == "text")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 3]}..."
