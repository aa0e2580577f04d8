"""Findings about the texts of a proposal, each with its place, before a person reads it.

The checks are a tripwire for text that works against the platform or its reviewers. They are not what keeps the
platform safe: the text of a tool gives no permission, whatever it says.
"""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Literal

from demiurge.registry.blocked import BlockedPassage, blocked_passages
from demiurge.registry.catalog_text import full_text
from demiurge.registry.core_ids import CORE_IDS, core_id_of, normal_id
from demiurge.registry.findings import Finding
from demiurge.registry.look_alikes import fold, is_foreign_look_alike
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import ToolProposal
from demiurge.registry.proposal_texts import ProposalText, texts_of
from demiurge.tools.authoring.hidden_text import hidden_character
from demiurge.values import canonical_json

__all__ = ["MAX_CATALOG", "MAX_GIVEN", "SHIPPED_CALLS", "SOFT_PROMPT", "catalog_with", "static_findings"]

SOFT_PROMPT: Final = 4000
"""Characters of a prompt above which a reviewer is told that it is long."""
MAX_CATALOG: Final = 64_000
"""Characters of the full catalog text that no proposal may exceed."""
MAX_GIVEN: Final = 40_000
"""Bytes of what all test cases are given, as canonical JSON."""
SHIPPED_CALLS: Final = frozenset(
    {
        *("core__prompt_tool", "core__propose_tool", "core__ask_user", "core__get_current_time", "core__read_result"),
        *("workspace__list", "workspace__read", "workspace__write"),
        *("introspect__manifest", "introspect__schemas", "introspect__module", "introspect__state"),
        "core__find_tools",
    }
)
"""The shipped tools that can be called, besides the core tools."""

_PROTOCOL_IN_REPLY: Final = frozenset({"protocol_word", "receipt_id"})
_JOINERS: Final = "\u200c\u200d\ufe0e\ufe0f"
_SNAKE: Final = r"[a-z][a-z0-9]*(?:_+[a-z0-9]+)+"
_CALLS: Final[tuple[tuple[str, Literal["block", "warn"]], ...]] = (
    (rf"(?<![\w.])({_SNAKE})\(", "block"),
    (r"[\"']tool[\"']\s*:\s*[\"']([^\"'\n]{1,80})[\"']", "block"),
    (r"(?<!\w)(core__[a-z0-9_]+)", "block"),
    (rf"(?<!\w)(?:call|run|invoke|execute|use)s?\s+(?:the\s+)?tool\s+[\"'*]{{0,3}}({_SNAKE})(?!\w)", "block"),
    (rf"(?<!\w)(?:call|run|invoke|execute)s?\s+(?:the\s+)?[\"'*]{{0,3}}({_SNAKE})(?!\w)", "warn"),
)
"""The forms in which a text calls a tool. The last may also name a field of a result."""
_ENCODED: Final = r"(?<![A-Za-z0-9+/_-])(?=[A-Za-z+/_-]*[0-9])(?=[0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{48,}={0,2}"
_BASE64: Final = r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}"
_URL_SAFE: Final = str.maketrans("-_", "+/")
_FILLERS: Final = re.compile(
    r"\b(?:the|a|an|core|tool|official|original|built|in|builtin|locked|default|real|standard|new|v?\d+)\b"
)


def static_findings(
    proposal: ToolProposal, live: Sequence[PromptTool], callable_names: Collection[str] = ()
) -> list[Finding]:
    """Returns the findings about a proposal, in the order of its fields. `live`: the tools of the catalog now, core
    tools too; `callable_names`: the tools of the world that a model can call, besides those that ship with Demiurge."""
    found: list[Finding] = []
    too_long = _given_size(proposal) > MAX_GIVEN
    for text in texts_of(proposal):
        if too_long and ".given." in text.field:
            continue
        about = chain(_hidden(text), _mixed(text), _blocked(text), _calls(text, callable_names), _encoded(text))
        found += _distinct(about)
    return [*_limits(proposal, live), *_core_names(proposal, live), *found]


def catalog_with(proposal: ToolProposal, live: Sequence[PromptTool]) -> list[PromptTool]:
    """Returns the tools of the catalog once the proposal is approved."""
    others = [tool for tool in live if tool.id != proposal.tool.id]
    return others if proposal.kind == "delete" else [*others, proposal.tool]


def _limits(proposal: ToolProposal, live: Sequence[PromptTool]) -> Iterator[Finding]:
    prompt = proposal.tool.prompt
    if len(prompt) > SOFT_PROMPT:
        message = f"The prompt has more than {SOFT_PROMPT} characters, which a model pays for each time. Shorten it."
        yield Finding("long_prompt", "prompt", SOFT_PROMPT, len(prompt), "warn", message)
    before, after = len(full_text(live)), len(full_text(catalog_with(proposal, live)))
    if after > max(before, MAX_CATALOG):
        message = (
            f"The catalog would have {after} characters, of at most {MAX_CATALOG}. "
            "Shorten the prompt, or propose to delete a tool that is not used."
        )
        yield Finding("catalog_full", "prompt", 0, len(prompt), "block", message)
    size = _given_size(proposal)
    if size > MAX_GIVEN:
        message = f"The test cases are given {size} bytes, of at most {MAX_GIVEN}. Give them the passages that matter."
        yield Finding("given_too_long", "testCases", 0, 0, "block", message)


def _given_size(proposal: ToolProposal) -> int:
    return sum(len(canonical_json.encode(dict(case.given or {}))) for case in proposal.test_cases)


def _core_names(proposal: ToolProposal, live: Sequence[PromptTool]) -> Iterator[Finding]:
    tool = proposal.tool
    severity: Literal["block", "warn"] = "warn" if proposal.kind == "delete" else "block"
    core_id = core_id_of(tool.id)
    if core_id is not None:
        message = f"The id stands for the core tool {core_id}, which is Locked (core). Choose an id of its own."
        yield Finding("core_id_shadowed", "id", 0, len(tool.id), "block", message)
    other = next((one.id for one in live if one.id != tool.id and normal_id(one.id) == normal_id(tool.id)), None)
    if core_id is None and other is not None:
        message = f"The id reads like the one of the live tool {other}. Choose an id that nobody confuses with it."
        yield Finding("id_resembles_another", "id", 0, len(tool.id), severity, message)
    core_name = _core_name_of(tool.name, live)
    if core_name is not None:
        message = f"The name reads like the one of the core tool {core_name}. Choose a name that nobody confuses."
        yield Finding("core_name_shadowed", "name", 0, len(tool.name), severity, message)
    for reading in fold(tool.name):
        claim = re.search(r"[(\[{]\s*core\s*[)\]}]|\blocked\b", reading.text)
        if claim is not None:
            message = "The name says that the tool is a core tool. Only the shipped tools are; leave the words out."
            yield Finding("core_name_shadowed", "name", *reading.span(*claim.span()), severity, message)
            return


def _core_name_of(name: str, live: Sequence[PromptTool]) -> str | None:
    """Returns the core id whose tool a reader would take the name for, None if there is none."""
    names = {_letters(tool.name): tool.id for tool in live if tool.id in CORE_IDS}
    for reading in fold(name):
        spaced = re.sub(r"[\W_]+", " ", reading.text)
        for form in (spaced, _FILLERS.sub(" ", spaced)):
            core_id = core_id_of(form) or names.get(_letters(form))
            if core_id is not None:
                return core_id
    return None


def _letters(text: str) -> str:
    return "".join(letter for letter in fold(text)[0].text if letter.isalnum())


def _hidden(text: ProposalText) -> Iterator[Finding]:
    for found in re.finditer(r"[^\x20-\x7e\n\t]+", text.text.replace("\r\n", "\n\n")):
        for at in range(*found.span()):
            if _is_hidden(text.text, at):
                message = f"The invisible character U+{ord(text.text[at]):04X} is here. Delete it."
                yield _finding(text, "hidden_character", at, at + 1, "block", message)


def _is_hidden(text: str, at: int) -> bool:
    """Returns whether the character has no shape of its own and shapes no letter before it."""
    letter = text[at]
    if letter not in _JOINERS:
        return hidden_character(letter) is not None
    before = text[at - 1] if at else " "
    is_keycap = letter == "\ufe0f" and text[at + 1 : at + 2] == "\u20e3"
    is_plain = before.isascii() or "LATIN" in unicodedata.name(before, "") or is_foreign_look_alike(before)
    return is_plain and not is_keycap


def _mixed(text: ProposalText) -> Iterator[Finding]:
    for word in re.finditer(r"[^\W\d_]+", text.text):
        if any(letter.isascii() for letter in word[0]) and any(is_foreign_look_alike(letter) for letter in word[0]):
            message = "This word mixes letters of two scripts that look alike. Write it in one script."
            yield _finding(text, "mixed_letters", *word.span(), "block", message)


def _blocked(text: ProposalText) -> Iterator[Finding]:
    for found in blocked_passages(text.text):
        if not (found.code in _PROTOCOL_IN_REPLY and _is_expected(found.code, text)):
            yield _finding(text, found.code, found.start, found.end, found.severity, found.message)


def _is_expected(code: str, text: ProposalText) -> bool:
    """Returns whether a test case has to hold such a word: the case gives a receipt, or expects one or a stop hook in
    its reply."""
    expect = (text.case.expect or {}) if text.case is not None else {}
    if code == "protocol_word":
        return bool(expect.get("stop_hook"))
    return ".given." in text.field or expect.get("receipt") is True or expect.get("evidence") == "required"


def _calls(text: ProposalText, callable_names: Collection[str]) -> Iterator[Finding]:
    for reading in fold(text.text):
        for pattern, severity in _CALLS:
            for found in re.finditer(pattern, reading.text):
                if not _is_callable(found[1], callable_names):
                    message = "This calls a tool that is not registered as callable. Name a tool that can be called."
                    yield _finding(text, "unregistered_call", *reading.span(*found.span(1)), severity, message)


def _is_callable(name: str, callable_names: Collection[str]) -> bool:
    return core_id_of(name) is not None or name in SHIPPED_CALLS or name in callable_names


def _encoded(text: ProposalText) -> Iterator[Finding]:
    for found in re.finditer(_ENCODED, text.text):
        message = "This looks like encoded data. A reviewer can't read it; write what it says, or leave it out."
        yield _finding(text, "encoded_data", *found.span(), "warn", message)
    for found in re.finditer(_BASE64, text.text):
        hidden = _decoded(found[0])
        for passage in blocked_passages(hidden):
            message = f"This is base64, and says: {_shown(hidden, passage)}. Nothing may be said in code."
            yield _finding(text, "encoded_instructions", *found.span(), passage.severity, message)


def _decoded(token: str) -> str:
    """Returns the text that a token of base64 stands for; "" if it stands for none."""
    plain = token.rstrip("=").translate(_URL_SAFE)
    try:
        decoded = b64decode(plain + "=" * (-len(plain) % 4), validate=True).decode()
    except ValueError:
        return ""
    return decoded if all(letter.isprintable() or letter.isspace() for letter in decoded) else ""


def _shown(text: str, passage: BlockedPassage) -> str:
    """Returns the passage in short, on one line."""
    return json.dumps(text[passage.start : passage.end][:80], ensure_ascii=False)


def _finding(
    text: ProposalText, code: str, start: int, end: int, severity: Literal["block", "warn"], message: str
) -> Finding:
    return Finding(code, text.field, start, end, severity if text.blocks else "warn", message)


def _distinct(found: Iterable[Finding]) -> list[Finding]:
    """Returns the findings in their order, without those inside another one of the same code, which blocks if they
    do."""
    kept: list[Finding] = []
    for one in sorted(found, key=lambda one: (one.severity != "block", one.start, -one.end)):
        if not any(other.code == one.code and other.start <= one.start and one.end <= other.end for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda one: (one.start, one.end, one.code))
