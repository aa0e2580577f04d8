"""Evidence of the core tools: passages of files that a tool read, and the receipt that binds them to its call.

A quote is always a verbatim prefix of the passage, never shortened by an ellipsis, so that it can be compared with the
file letter by letter. The id of a receipt is a digest of everything in the receipt, so that a receipt with changed
evidence does not fit its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of

__all__ = [
    "MAX_QUOTE",
    "EvidenceFinding",
    "EvidenceItem",
    "ToolReceipt",
    "finding_line",
    "findings_blob",
    "findings_from_blob",
    "receipt_from_json",
    "receipt_of",
]

MAX_QUOTE: Final = 220
"""The most characters of the quote of an evidence item."""


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """A passage of a file: the lines `start_line` to `end_line` (from 1, both included). `quote`: the first characters
    of the passage, verbatim; `sha256`: the digest of the whole file's bytes, `sha256:` and 64 digits."""

    path: str
    start_line: int
    end_line: int
    quote: str
    sha256: Ref

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ToolReceipt:
    """A proof that a core tool ran: `tool` is its id, `tool_sha256` the digest of its record in the pack,
    `args_sha256` the digest of the canonical JSON of its arguments. A receipt is valid only if a recorded call gave
    it; anybody can compute an id."""

    receipt_id: str
    tool: str
    tool_sha256: Ref
    args_sha256: Ref
    evidence: tuple[EvidenceItem, ...]

    @property
    def is_intact(self) -> bool:
        """True if the id fits everything else in the receipt."""
        return self.receipt_id == _receipt_id(self.tool, self.tool_sha256, self.args_sha256, self.evidence)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"evidence": [item.to_json() for item in self.evidence]}


@dataclass(frozen=True, slots=True)
class EvidenceFinding:
    """A citation of an answer that does not hold: the number of its line from 1, a `ClaimCode`, the receipt, source or
    quote that it is about, and what is wrong as a sentence."""

    line: int
    code: str
    detail: str
    message: str


def finding_line(line: int, message: str) -> str:
    """Returns a finding in words: the line of the answer, and what is wrong there."""
    return f"line {line}: {message}"


def findings_blob(answer: Ref, findings: Sequence[EvidenceFinding]) -> bytes:
    """Returns the findings about an answer as a blob. It names the answer, so that two answers never share one, and it
    is erased with the answer."""
    return canonical_json.encode({"answer": answer, "findings": [asdict(finding) for finding in findings]})


def findings_from_blob(data: bytes) -> tuple[EvidenceFinding, ...]:
    """Returns the findings in a blob of `findings_blob`."""
    return tuple(EvidenceFinding(**found) for found in canonical_json.parse_object(data)["findings"])


def receipt_of(tool: str, tool_sha256: Ref, args: Mapping[str, Any], evidence: Sequence[EvidenceItem]) -> ToolReceipt:
    """Returns the receipt of a call of `tool` with these arguments, which found this evidence."""
    args_sha256 = ref_of(canonical_json.encode(dict(args)))
    items = tuple(evidence)
    return ToolReceipt(_receipt_id(tool, tool_sha256, args_sha256, items), tool, tool_sha256, args_sha256, items)


def receipt_from_json(given: Mapping[str, Any]) -> ToolReceipt:
    """Returns the receipt in a document, such as the result of a recorded call. Raises InvalidValue (`bad_receipt`)
    for a document that is no receipt, and for an id that does not fit the rest."""
    try:
        items = tuple(_item(item) for item in given["evidence"])
        tool, tool_sha256, args_sha256 = given["tool"], given["tool_sha256"], given["args_sha256"]
        receipt = ToolReceipt(given["receipt_id"], tool, tool_sha256, args_sha256, items)
        intact = receipt.is_intact
    except (KeyError, TypeError, InvalidValue):
        intact = False
    if not intact:
        raise InvalidValue(
            "This is no receipt of a tool: its id does not fit its content. Call the tool again.", code="bad_receipt"
        )
    return receipt


def _item(given: Mapping[str, Any]) -> EvidenceItem:
    """Returns an evidence item. Raises TypeError for a document that is none."""
    item = EvidenceItem(**given)
    numbers, texts = (item.start_line, item.end_line), (item.path, item.quote, item.sha256)
    if any(type(number) is not int for number in numbers) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return item


def _receipt_id(tool: str, tool_sha256: str, args_sha256: str, evidence: Sequence[EvidenceItem]) -> str:
    content = {
        "tool": tool,
        "tool_sha256": tool_sha256,
        "args": args_sha256,
        "evidence": [item.to_json() for item in evidence],
    }
    return f"rcpt_{sha256(canonical_json.encode(content)).hexdigest()[:32]}"
