"""Standing rules: a person allows further calls of one tool in one unit, such as a chat, without being asked again.

A rule is made from a call that waits. It is bound to that call's tool with its wording (`spec_hash`), to its actor and
to the policy's rule that asked. It ends at a time and after a number of calls. Its pattern names every argument that
a call may have, each with one of three forms:

    {"equals": value}   exactly this value
    {"like": "notes/*"} a text; `*` stands for any characters but `/`, and no part of the path is `..`
    {"any": true}       any value

A call with an argument that the pattern does not name, or without one that it names, does not match: a person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.tools.approvals import may_decide
from demiurge.values import canonical_json, cbor

__all__ = [
    "BOUND",
    "MAX_CALLS",
    "MAX_LIFETIME_NS",
    "MAX_RULES",
    "Rule",
    "check_pattern",
    "exactly",
    "matches",
    "rule_id",
]

Rule = Mapping[str, Any]
"""`{id, bound, pattern, expires_ns, left, by, roles, reason, at_ms}`. `bound`: the fields `BOUND` of the question about
the call that the rule was made from; `pattern`: as JSON text; `left`: how many calls it still allows."""

BOUND: Final = ("tool", "spec_hash", "actor", "rule_digest")
MAX_RULES: Final = 64
MAX_CALLS: Final = 1000
MAX_LIFETIME_NS: Final = 30 * 24 * 3600 * 10**9
MAX_PATTERN: Final = 16_000


def rule_id(world: str, unit: str, body: Mapping[str, Any]) -> str:
    """Returns the id of the rule that the ingress `body` makes in a unit; no rule with other terms has it."""
    return cbor.digest([world, unit, dict(body)]).hex()


def exactly(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pattern that only these arguments match."""
    return {name: {"equals": value} for name, value in arguments.items()}


def check_pattern(pattern_json: str) -> str:
    """Returns the pattern in canonical form. Raises InvalidValue (`bad_pattern`)."""
    if len(pattern_json) > MAX_PATTERN:
        raise InvalidValue(f"a pattern has at most {MAX_PATTERN} characters", code="bad_pattern")
    pattern = canonical_json.parse_object(pattern_json)
    for name, form in pattern.items():
        if not isinstance(form, Mapping) or len(form) != 1 or not _is_form(*next(iter(form.items()))):
            text = 'is {"equals": VALUE}, {"like": TEXT} or {"any": true}'
            raise InvalidValue(text, path=f"pattern.{name}", code="bad_pattern")
    return canonical_json.encode(pattern).decode()


def _is_form(kind: str, value: Any) -> bool:
    return kind == "equals" or (kind == "like" and isinstance(value, str)) or (kind == "any" and value is True)


def matches(rule: Rule, question: Mapping[str, Any], call: bytes, now_ns: int) -> bool:
    """Returns whether a rule allows the call that a person would be asked `question` about. No rule answers a question
    that a person has to answer in words, or that is asked because the run has read untrusted text."""
    if question["expires_ns"] is None or question.get("tainted"):
        return False
    if rule["left"] < 1 or now_ns >= rule["expires_ns"]:
        return False
    if any(rule["bound"][name] != question[name] for name in BOUND):
        return False
    if not may_decide(rule["roles"], tuple(tuple(roles) for roles in question.get("approvers", ()))):
        return False
    try:
        arguments = canonical_json.parse_object(canonical_json.parse_object(call)["arguments_json"])
        pattern = canonical_json.parse_object(rule["pattern"])
        same = set(arguments) == set(pattern)
        return same and all(_fits(pattern[name], value) for name, value in arguments.items())
    except InvalidValue:
        return False


def _fits(form: Mapping[str, Any], value: Any) -> bool:
    if "any" in form:
        return True
    if "equals" in form:
        return canonical_json.encode(form["equals"]) == canonical_json.encode(value)
    return isinstance(value, str) and ".." not in re.split(r"[/\\]", value) and _is_like(form["like"], value)


def _is_like(like: str, value: str) -> bool:
    wanted = r"[^/\\]*".join(re.escape(part) for part in like.split("*"))
    return re.fullmatch(wanted, value) is not None
