"""`ScanFinding`: one remark about the definition of a tool, and the table of all codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from demiurge.mcp.definition import visible

__all__ = ["CODES", "SEVERITIES", "ScanFinding", "Severity", "excerpt", "one_line"]

Severity = Literal["high", "medium", "low"]
SEVERITIES: Final[tuple[Severity, ...]] = ("high", "medium", "low")
"""The severities, the worst first."""

CODES: Final[Mapping[str, str]] = {
    # orders to the model
    "overrides_instructions": "Don't trust the tool: its text sets the user's instructions aside.",
    "new_role": "Don't trust the tool: its text gives the model another role.",
    "asks_for_secret": "Don't trust the tool unless you know why its text asks for a key or a prompt.",
    "protocol_word": "Don't trust the tool: its text holds a word of Demiurge's own tool protocol.",
    "fake_tool_use": "Don't trust the tool: its text tells the model to claim calls that did not happen.",
    "claims_approval": "Don't believe the claim: only your recorded decision approves a call.",
    "role_header": "Don't trust the tool: its text imitates a message of the system or the user.",
    "chat_markup": "Don't trust the tool: its text holds the markup between messages of a conversation.",
    "hides_from_user": "Don't trust the tool: no tool has a reason to hide something from you.",
    "skips_confirmation": "Keep the rule `ask` for the tool; its text can't switch your approvals off.",
    "reads_secret": "Don't trust the tool: its text is after your secrets.",
    "sensitive_path": "Don't trust the tool unless it is meant to work with this file.",
    "asks_for_conversation": "Don't trust the tool unless you want its server to read the conversation.",
    "orders_calls": "Read the text: it steers when tools are called. Trust it only if you want exactly that.",
    "changes_calls": "Don't trust the tool: its text changes calls of other tools.",
    "promotes_itself": "Read the text: it advertises the tool against others. Ask the server's author to remove it.",
    "claims_authority": "Read the text: a tool has no authority over your agent.",
    "runs_command": "Don't trust the tool unless you would run this command yourself.",
    "importance_tag": "Don't trust the tool: its text dresses a passage up as an order.",
    "exfiltrating_link": "Don't trust the tool unless you know the host: showing such a link sends data to it.",
    "sends_data_out": "Don't trust the tool unless you know the address and want data sent there.",
    # what a reader does not see
    "hidden_character": "Ask the server's author to remove the characters; don't trust the tool until then.",
    "hidden_text": "Don't trust the tool: its text carries a message that only a model reads.",
    "terminal_escape": "Don't trust the tool: a terminal would hide or change what you read.",
    "bidi_control": "Don't trust the tool: the characters change the order in which you read the text.",
    "hidden_comment": "Read the comment in the excerpt; don't trust the tool if it speaks to a model.",
    "out_of_view": "Read the text to its end: blanks push a part of it out of view.",
    "encoded_text": "Don't trust the tool: its text hides words in an encoding.",
    "encoded_data": "Ask the server's author for what the data are; nobody can review them.",
    "mixed_letters": "Don't trust the tool: the word is made of letters of two alphabets that look alike.",
    # names
    "look_alike_tool": "Trust only one of the two tools, and check that it is of the server that you mean.",
    "look_alike_server": "Check the address or command of both servers; remove the one that you don't know.",
    "shadows_core_tool": "Don't trust the tool: its name reads like the one of a tool that ships with Demiurge.",
    "same_name": "Tell the model which server you mean; ids and policies name the server.",
    "names_other_tool": "Read the text: it talks of a tool of another server. Trust it only if both belong together.",
    # schemas
    "secret_parameter": "Prefer a connection or the server's environment: a model sees the arguments of a call.",
    "conversation_parameter": "Trust the tool only if you want its server to read what the model puts there.",
    "path_parameter": "Check which folders the server may read; the model chooses the path.",
    "code_parameter": "Keep the rule `ask`: whoever writes the argument decides what the server runs.",
    "free_properties": "Keep the rule `ask`: the arguments may hold anything, under any name.",
    "unbounded_object": "Keep the rule `ask`: the object may hold anything.",
    # hints, and size
    "hint_contradicts_name": "Trust the tool with `--effect external_side_effect`, so that you are asked.",
    "hint_contradicts_text": "Read the text, and trust the tool with the `--effect` that fits it.",
    "hints_contradict": "Trust the tool with the `--effect` that fits it; its hints can't both be true.",
    "long_text": "Read the whole text; a person overlooks things in one that is so long.",
    "large_schema": "Read the whole schema; a model pays for it in each request.",
}
"""The advice to a person about a finding, by the code of the finding."""


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """A remark about the tool `tool` of `server`.

    `field` is a path in the definition (`inputSchema/properties/path/description`; that of a property's name is the
    property's own); `start` and `end` count characters of that text. `excerpt` is the text around the place with hidden
    characters spelled out; `rule` names what was looked for, and `matched` is what it found. `advice` says what to
    do. `tool` is "" for a remark about the server."""

    code: str
    severity: Severity
    server: str
    tool: str
    field: str
    start: int
    end: int
    excerpt: str
    rule: str
    matched: str
    advice: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


_AROUND: Final = 40
_LONGEST: Final = 160


def one_line(text: str) -> str:
    """Returns the text in one line, with each hidden character spelled out as `<U+200B>`."""
    return visible(text).replace("\t", "\\t").replace("\n", "\\n")


def excerpt(text: str, start: int, end: int) -> str:
    """Returns the passage with up to 40 characters on each side, at most about 160 characters, in one line."""
    end = min(end, start + _LONGEST)
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    return f"{'…' * (first > 0)}{one_line(text[first:last])}{'…' * (last < len(text))}"
