"""The expectations of a test case, checked on the reply that the case carries."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.registry.citations import SourceLines, cited_receipts
from demiurge.registry.claims import Grounds, claim_problem
from demiurge.registry.evidence import EvidenceItem, ToolReceipt
from demiurge.registry.evidence_line import evidence_line_problem, evidence_lines
from demiurge.registry.pack.sources import split_lines
from demiurge.registry.pack.spellings import argument_spellings, pack_tool_id
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.registry.pattern import is_match
from demiurge.registry.proposal import TestCase
from demiurge.registry.static_checks import SHIPPED_CALLS
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.tool_envelope import EnvelopeCall, EnvelopeTools, Rejection, read_decision

__all__ = ["CASE_NONCE", "EXPECTATIONS", "broken_expectations", "call_tools"]

CASE_NONCE: Final = "NONCE"
"""The nonce of a call in the reply of a test case."""

_STOP_HOOK: Final = re.compile(r"\[?STOP[ _-]?HOOK\s*:\s*([a-z_-]+)\]?(?:\s|$)", re.IGNORECASE)
_NO_DIGEST: Final = ref_of(b"")
_ANY_ARGS: Final = {"type": "object"}


@dataclass(frozen=True, slots=True)
class _Setting:
    """The surroundings of a reply that is checked: what the case gives, the other tools that a call may
    name, and the role of the tool."""

    given: Mapping[str, Any]
    callable_names: Collection[str]
    role: str


def broken_expectations(case: TestCase, callable_names: Collection[str] = (), role: str = "") -> tuple[str, ...]:
    """Returns the expectations that the reply of an automatic test case does not meet: their names, each with what is
    wrong. `role`: the archetype of the tool, which says what an evidence line may rely on."""
    setting = _Setting(case.given or {}, callable_names, role)
    found = [
        (name, EXPECTATIONS[name](case.reply or "", wanted, setting)) for name, wanted in (case.expect or {}).items()
    ]
    return tuple(dict.fromkeys(f"{name}: {problem}" for name, problem in found if problem is not None))


@lru_cache(maxsize=8)
def call_tools(callable_names: frozenset[str] = frozenset()) -> EnvelopeTools:
    """Returns the tools that a call in a reply may name: the core tools, and with any arguments the other shipped ones
    and `callable_names`."""
    core = {tool.name: tool.bound.spec for tool in PACK_TOOLS}
    others = sorted((SHIPPED_CALLS | callable_names) - core.keys())
    specs = [*core.values(), *(ToolSpec(name, name, _ANY_ARGS) for name in others)]
    return EnvelopeTools.of(specs, pack_tool_id, argument_spellings())


def _call_in(reply: str, callable_names: Collection[str]) -> EnvelopeCall | str:
    """Returns the tool call that the whole reply is, or a sentence that says that it is none."""
    found = read_decision(reply, call_tools(frozenset(callable_names)), CASE_NONCE)
    if isinstance(found, Rejection):
        return f"the call is rejected, {found.code} {found.detail}".rstrip()
    return found if isinstance(found, EnvelopeCall) else "the reply is no tool call"


def _json_only(reply: str, wanted: bool, _: _Setting) -> str | None:
    try:
        canonical_json.parse_object(reply.strip(" \t\r\n"))
    except InvalidValue:
        return "the reply is not one JSON object and nothing else" if wanted else None
    return None


def _no_fences(reply: str, wanted: bool, _: _Setting) -> str | None:
    return "the reply has a code fence" if wanted and ("```" in reply or "~~~" in reply) else None


def _tool(reply: str, wanted: str, setting: _Setting) -> str | None:
    call = _call_in(reply, setting.callable_names)
    if isinstance(call, str):
        return call
    return None if call.tool in (wanted, pack_tool_id(wanted)) else f"the reply calls {call.tool}"


def _args(reply: str, wanted: Mapping[str, Any], setting: _Setting) -> str | None:
    call = _call_in(reply, setting.callable_names)
    if isinstance(call, str):
        return call
    wrong = [name for name, value in wanted.items() if not _is_equal(call.args, name, value)]
    return f"the call has another value of {', '.join(sorted(wrong))}" if wrong else None


def _is_equal(args: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in args and canonical_json.encode(args[name]) == canonical_json.encode(value)


def _evidence(reply: str, wanted: str, setting: _Setting) -> str | None:
    if wanted == "forbidden":
        return "the reply has an evidence line" if evidence_lines(reply) else None
    if wanted != "required":
        return "an expectation of evidence is required or forbidden"
    problem = evidence_line_problem(reply, _grounds(setting.given), setting.role)
    return None if problem is None else f"{problem.code} {problem.detail}".strip()


def _receipt(reply: str, wanted: bool, setting: _Setting) -> str | None:
    cited = cited_receipts(reply)
    if not wanted:
        return "the reply cites a receipt" if cited else None
    problem = claim_problem(reply, _grounds(setting.given))
    if problem is not None:
        return f"{problem.code} {problem.detail}".strip()
    return None if cited else "the reply cites no receipt"


def _grounds(given: Mapping[str, Any]) -> Grounds:
    """Returns what a test case gives its reply to rely on. A receipt is its id, or an object with `receipt_id` and
    `evidence`, a list of objects with `path`, `quote` and, if wanted, `start_line`, `end_line` and `sha256`."""
    files = {path: text for path, text in given.get("files", {}).items() if isinstance(text, str)}
    receipts: dict[str, ToolReceipt] = {}
    for receipt in given.get("receipts", ()):
        found = receipt if isinstance(receipt, Mapping) else {"receipt_id": receipt}
        evidence = found.get("evidence", ())
        items = [item for item in evidence if isinstance(item, Mapping)] if isinstance(evidence, list | tuple) else []
        name = str(found.get("receipt_id"))
        stated = [_item(item, files) for item in items]
        receipts[name] = ToolReceipt(
            name, str(found.get("tool")), _NO_DIGEST, _NO_DIGEST, tuple(item for item in stated if item is not None)
        )
    return Grounds(receipts, {path: (text,) for path, text in files.items()})


def _item(given: Mapping[str, Any], files: Mapping[str, str]) -> EvidenceItem | None:
    """Returns an evidence item of a test case. Lines that it does not state are those where its quote begins and ends,
    a digest that it does not state is the one of the file now. Returns None if the quote is not in the file."""
    path, quote = str(given.get("path")), str(given.get("quote", ""))
    text = files.get(path, "")
    begins = next(SourceLines(split_lines(text)).begins(quote), None) if quote.strip() else None
    first = given.get("start_line", begins)
    if type(first) is not int:
        return None
    last = given.get("end_line", first + quote.strip().count("\n"))
    digest = given.get("sha256", ref_of(text.encode()))
    return EvidenceItem(path, first, last, quote, Ref(str(digest))) if type(last) is int else None


def _must_match(reply: str, wanted: list[str], _: _Setting) -> str | None:
    missing = next((pattern for pattern in wanted if not is_match(pattern, reply)), None)
    return None if missing is None else f"the reply does not match {missing}"


def _must_not_match(reply: str, wanted: list[str], _: _Setting) -> str | None:
    present = next((pattern for pattern in wanted if is_match(pattern, reply)), None)
    return None if present is None else f"the reply matches {present}"


def _max_chars(reply: str, wanted: int, _: _Setting) -> str | None:
    return f"the reply has {len(reply)} characters, of at most {wanted}" if len(reply) > wanted else None


def _stop_hook(reply: str, wanted: str, _: _Setting) -> str | None:
    found = _STOP_HOOK.match(reply.lstrip())
    if found is None:
        return "the first line is no stop hook"
    kind = found[1].lower().replace("_", "-")
    return None if kind == wanted.lower().replace("_", "-") else f"the stop hook is {kind}"


_Check = Callable[[str, Any, _Setting], str | None]
EXPECTATIONS: Final[Mapping[str, _Check]] = {
    "json_only": _json_only,
    "no_fences": _no_fences,
    "tool": _tool,
    "args": _args,
    "evidence": _evidence,
    "receipt": _receipt,
    "must_match": _must_match,
    "must_not_match": _must_not_match,
    "max_chars": _max_chars,
    "stop_hook": _stop_hook,
}
"""The check of each expectation: it returns what is wrong with a reply, None if it meets the expectation."""
