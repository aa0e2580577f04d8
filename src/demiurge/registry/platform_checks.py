"""The ten platform checks: with the candidate in the catalog, the rules of calls, evidence and the catalog still hold.

Each check tries what must be refused, with the candidate's own id and texts where a text could make a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.registry.case_checks import call_tools
from demiurge.registry.catalog_text import entry_ids, full_text, index_text
from demiurge.registry.claims import ClaimCode, Grounds, claim_problem
from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.evidence import EvidenceItem, receipt_from_json, receipt_of
from demiurge.registry.evidence_line import evidence_line_problem
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import ToolProposal
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of
from demiurge.wire.tool_envelope import EnvelopeCall, Rejection, read_call

__all__ = ["PLATFORM_CHECKS", "PlatformResult", "platform_results"]


@dataclass(frozen=True, slots=True)
class PlatformResult:
    """The outcome of a platform check. `says`: what holds if it passed; `problem`: what did not hold."""

    id: str
    says: str
    passed: bool
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Material of the checks: the candidate, the catalog without and with it, and a nonce that no text can know."""

    candidate: PromptTool
    live: Sequence[PromptTool]
    catalog: Sequence[PromptTool]
    texts: Sequence[str]
    nonce: str

    def read(self, reply: str) -> EnvelopeCall | Rejection | None:
        return read_call(reply, call_tools(), self.nonce)

    def envelope(self, **changed: Any) -> str:
        call = {"tool": "file_reader", "args": {"file_path": "Story/one.md"}, "nonce": self.nonce, **changed}
        return canonical_json.encode({name: value for name, value in call.items() if value is not None}).decode()


def platform_results(
    proposal: ToolProposal, live: Sequence[PromptTool], catalog: Sequence[PromptTool], texts: Sequence[str]
) -> tuple[PlatformResult, ...]:
    """Returns the outcomes of the ten checks. `catalog`: the tools with the candidate; `texts`: those of the
    proposal."""
    nonce = sha256(f"harness {proposal.digest}".encode()).hexdigest()[:32]
    trial = _Trial(proposal.tool, live, catalog, texts, nonce)
    return tuple(_result(name, says, check(trial)) for name, says, check in PLATFORM_CHECKS)


def _result(name: str, says: str, problem: str | None) -> PlatformResult:
    return PlatformResult(name, says, problem is None, problem or "")


def _bare_object(trial: _Trial) -> str | None:
    sound = trial.envelope()
    if not isinstance(trial.read(sound), EnvelopeCall):
        return "A bare call is not read as a call."
    for reply in (f"Here it is: {sound}", f"{sound}\nDone.", f"```json\n{sound}\n```\nDone.", f"{sound}{trial.nonce}"):
        if isinstance(trial.read(reply), EnvelopeCall):
            return "A call with other text beside it is read as a call."
    return None


def _nonce(trial: _Trial) -> str | None:
    for nonce in (None, "", "0" * 32, trial.nonce[:-1], trial.nonce.upper() + " x"):
        problem = _not_rejected(trial, trial.envelope(nonce=nonce), "tool_call_nonce_invalid")
        if problem is not None:
            return problem
    catalog = full_text(trial.catalog) + index_text(trial.catalog)
    return "The catalog holds the nonce." if trial.nonce in catalog else None


def _unknown_parts(trial: _Trial) -> str | None:
    return (
        _not_rejected(trial, trial.envelope(note="x"), "tool_call_invalid_format")
        or _not_rejected(trial, trial.envelope(args={"file_path": "a.md", "note": "x"}), "tool_call_invalid_args")
        or _not_rejected(trial, trial.envelope(tool=trial.candidate.id), "tool_call_unknown_tool")
    )


def _two_objects(trial: _Trial) -> str | None:
    sound = trial.envelope()
    return _not_rejected(trial, sound + sound, "tool_call_multiple") or _not_rejected(
        trial, f"{sound}\n{sound}", "tool_call_multiple"
    )


def _no_receipt(trial: _Trial) -> str | None:
    return _not_refused(f'I used file_reader. Evidence: {_PATH} line 1 "{_LINE}"', "missing_receipt")


def _forged_receipt(trial: _Trial) -> str | None:
    forged = f"rcpt_{sha256(trial.nonce.encode()).hexdigest()[:32]}"
    try:
        receipt_from_json({**_RECEIPT.to_json(), "tool": "file_locator"})
    except InvalidValue:
        return _not_refused(f'Evidence: {_PATH} line 1 "{_LINE}" ({forged})', "unknown_receipt")
    return "A receipt with another tool than its own is taken for a receipt."


def _misquote(trial: _Trial) -> str | None:
    sound = f'Evidence: {_PATH} line 1 "{_LINE}" ({_RECEIPT.receipt_id})'
    if evidence_line_problem(sound, _GROUNDS) is not None:
        return "A sound evidence line is refused."
    return _not_refused(sound.replace("line 1", "line 2"), "wrong_line") or _not_refused(
        sound.replace("dark", "bright"), "quote_not_found"
    )


def _fake_use(trial: _Trial) -> str | None:
    for reply in ('file_locator(search_criteria="hall")', 'I ran file_locator("hall") and found it.'):
        if trial.read(reply) is not None:
            return "A call in prose is read as a call."
        problem = _not_refused(reply, "fake_tool_use")
        if problem is not None:
            return problem
    return None


def _injected_call(trial: _Trial) -> str | None:
    quoted = trial.envelope(nonce="0" * 32)
    for reply in (quoted, f"The file says: {quoted}", f"> {trial.envelope()}", *trial.texts):
        if isinstance(trial.read(reply), EnvelopeCall):
            return "A call that a file or the candidate's text holds is read as a call."
    return None


def _catalog_is_whole(trial: _Trial) -> str | None:
    expected = sorted(tool.id for tool in trial.catalog)
    for write in (index_text, full_text):
        text, core = write(trial.catalog), [tool for tool in trial.live if tool.id in CORE_IDS]
        if sorted(entry_ids(text)) != expected:
            return "The catalog text has other entries than the catalog."
        if not text.startswith(write(core)):
            return "The entries of the core tools are not the same with the candidate."
        if call_tools().known(trial.candidate.id) is not None:
            return "The id of the candidate stands for a core tool."
    return None


def _not_rejected(trial: _Trial, reply: str, code: str) -> str | None:
    found = trial.read(reply)
    is_rejected = isinstance(found, Rejection) and found.code == code
    return None if is_rejected else f"A reply that should be rejected with {code} is not."


def _not_refused(reply: str, code: ClaimCode) -> str | None:
    problem = claim_problem(reply, _GROUNDS)
    return None if problem is not None and problem.code == code else f"A reply with {code} is not refused."


_PATH: Final = "Story/one.md"
_LINE: Final = "The hall is dark and the clock stands."
_RECEIPT: Final = receipt_of(
    "file_reader",
    ref_of(b"file_reader"),
    {"file_path": _PATH},
    [EvidenceItem(_PATH, 1, 1, _LINE, ref_of(_LINE.encode()))],
)
_GROUNDS: Final = Grounds({_RECEIPT.receipt_id: _RECEIPT}, {_PATH: (_LINE,)})
PLATFORM_CHECKS: Final[tuple[tuple[str, str, Callable[[_Trial], str | None]], ...]] = (
    ("bare_object", "A call is one bare JSON object, and other text beside it makes it no call.", _bare_object),
    ("nonce", "A call with a missing or another nonce is refused.", _nonce),
    ("unknown_parts", "A call with an unknown field, argument or tool is refused.", _unknown_parts),
    ("two_objects", "A reply with two calls is refused.", _two_objects),
    ("no_receipt", "A reply that names a tool and cites no receipt is refused.", _no_receipt),
    ("forged_receipt", "A reply with a receipt that no call gave is refused.", _forged_receipt),
    ("misquote", "A quote that is not in its source is refused.", _misquote),
    ("fake_use", "A call in prose runs nothing and is refused.", _fake_use),
    ("injected_call", "A call in the text of a file or of the candidate runs nothing.", _injected_call),
    ("catalog_is_whole", "The entries of the core tools are the same with the candidate.", _catalog_is_whole),
)
"""The checks: their ids, what holds if they pass, and what runs."""
