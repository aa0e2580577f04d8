"""`ToolProposal`: a change of a prompt tool that a person has to approve, as its author wrote it.

The digest of a proposal covers every field. A review, a check, a verdict and an approval name that digest, so none of
them holds for a proposal that was changed afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.registry.core_ids import core_id_of, locked_error
from demiurge.registry.pattern import checked_pattern
from demiurge.registry.prompt_tool import FIELDS, PromptTool, read_prompt_tool, tool_problems
from demiurge.values import canonical_json
from demiurge.values.article import with_article
from demiurge.values.refs import Ref, parse_ref, ref_of

__all__ = ["CASE_KINDS", "KINDS", "TARGETS", "TestCase", "ToolProposal", "read_proposal"]

KINDS: Final = ("new", "modify", "delete")
TARGETS: Final = ("user", "project")
CASE_KINDS: Final = ("format", "evidence", "must_not", "example")

_BODY: Final = (*FIELDS, "proposalType", "rationale", "examples", "testCases", "target", "baseHash")
_CASE: Final = ("id", "should", "kind", "given", "reply", "expect", "check")
_EXPECT: Final[Mapping[str, type]] = {
    "json_only": bool,
    "no_fences": bool,
    "tool": str,
    "args": Mapping,
    "evidence": str,
    "receipt": bool,
    "must_match": list,
    "must_not_match": list,
    "max_chars": int,
    "stop_hook": str,
}
_GIVEN: Final[Mapping[str, type]] = {"message": str, "files": Mapping, "tool_results": list, "receipts": list}
_MAX_TEXT = 8000
_MAX_PATTERNS = 50


@dataclass(frozen=True, slots=True)
class TestCase:
    """A check that belongs to a proposal. An automatic case has the `reply` of a model and what to `expect` of it; a
    manual one has `check`, the words that tell a person what to look at. `should`: `pass` or `fail`."""

    __test__ = False  # for pytest: this class holds no tests

    id: str
    should: str
    kind: str = "example"
    given: Mapping[str, Any] | None = None
    reply: str | None = None
    expect: Mapping[str, Any] | None = None
    check: str | None = None

    @property
    def is_manual(self) -> bool:
        """True if a person has to record the verdict."""
        return self.reply is None


@dataclass(frozen=True, slots=True)
class ToolProposal:
    """A proposal. `kind`: new, modify or delete; `base`: the digest of the live tool that it changes, None for a new
    one; `target`: the layer that an approval puts the tool in."""

    tool: PromptTool
    kind: str
    rationale: str
    examples: Sequence[Mapping[str, str]]
    test_cases: Sequence[TestCase]
    target: str = "user"
    base: Ref | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the proposal as a file holds it."""
        found: dict[str, Any] = {
            **self.tool.to_json(),
            "proposalType": self.kind,
            "rationale": self.rationale,
            "examples": [dict(example) for example in self.examples],
            "testCases": [_case_to_json(case) for case in self.test_cases],
            "target": self.target,
        }
        return {**found, "baseHash": self.base} if self.base is not None else found

    def encode(self) -> bytes:
        """Returns the bytes that the digest covers."""
        return canonical_json.encode(self.to_json())

    @property
    def digest(self) -> Ref:
        return ref_of(self.encode())


def read_proposal(given: Mapping[str, Any]) -> ToolProposal:
    """Returns the proposal in a document; one that deletes a tool needs no examples and no test cases. Raises
    UsageError (`core_tool_locked`) if it names a core tool in any spelling, before anything else; InvalidValue
    (`invalid_proposal`) with all other problems, also one by one in `details`."""
    _require_no_core_id(given)
    wrong = [(name, "is no field of a proposal") for name in given if name not in _BODY]
    wrong += tool_problems(given)
    kind, target, base = given.get("proposalType", "new"), given.get("target", "user"), given.get("baseHash")
    if kind not in KINDS:
        wrong.append(("proposalType", f"is one of {', '.join(KINDS)}"))
    if target not in TARGETS:
        wrong.append(("target", f"is one of {', '.join(TARGETS)}"))
    if base is not None and not _is_ref(base):
        wrong.append(("baseHash", "is the digest of a tool, such as sha256:..."))
    elif (base is None) != (kind == "new"):
        wrong.append(("baseHash", "names the live tool that is changed" if base is None else "is for a change alone"))
    rationale = given.get("rationale")
    if not isinstance(rationale, str) or len(rationale.strip()) < 20 or len(rationale) > 2000:
        wrong.append(("rationale", "has 20 to 2000 characters"))
    examples, cases = given.get("examples"), given.get("testCases")
    if kind != "delete" or examples or cases:
        wrong += [*_example_problems(examples), *_cases_problems(cases)]
    if wrong:
        told = " ".join(f"{field}: {problem}." for field, problem in wrong)
        problems = [{"field": field, "problem": f"{problem}."} for field, problem in wrong]
        raise InvalidValue(told, code="invalid_proposal", details={"problems": problems})
    return ToolProposal(
        read_prompt_tool(given),
        kind,
        str(rationale),
        tuple(dict(example) for example in examples or ()),
        tuple(TestCase(**case) for case in cases or ()),
        target,
        Ref(base) if base is not None else None,
    )


def _require_no_core_id(given: Mapping[str, Any]) -> None:
    nested = given.get("tool")
    named = [given.get(name) for name in ("id", "targetId", "toolId", "tool")]
    named += [nested.get("id")] if isinstance(nested, Mapping) else []
    for text in named:
        core_id = core_id_of(text) if isinstance(text, str) else None
        if core_id is not None:
            raise locked_error(core_id)


def _is_ref(text: Any) -> bool:
    try:
        parse_ref(text)
    except InvalidValue:
        return False
    return True


def _example_problems(examples: Any) -> list[tuple[str, str]]:
    if not isinstance(examples, list) or not 2 <= len(examples) <= 3:
        return [("examples", "has 2 or 3 entries")]
    return [
        (f"examples[{at}]", "has the texts input and expected, of at most 8000 characters")
        for at, example in enumerate(examples)
        if not isinstance(example, Mapping)
        or set(example) != {"input", "expected"}
        or not all(isinstance(text, str) and 1 <= len(text) <= _MAX_TEXT for text in example.values())
    ]


def _cases_problems(cases: Any) -> list[tuple[str, str]]:
    if not isinstance(cases, list) or not 2 <= len(cases) <= 10:
        return [("testCases", "has 2 to 10 entries")]
    wrong = [problem for at, case in enumerate(cases) for problem in _case_problems(case, f"testCases[{at}]")]
    if wrong:
        return wrong
    if {case["should"] for case in cases} != {"pass", "fail"}:
        wrong.append(("testCases", "has at least one case that should pass and one that should fail"))
    if len({case["id"] for case in cases}) < len(cases):
        wrong.append(("testCases", "has no id twice"))
    return wrong


def _case_problems(case: Any, path: str) -> list[tuple[str, str]]:
    if not isinstance(case, Mapping):
        return [(path, "is an object")]
    wrong = [(f"{path}.{name}", "is no field of a test case") for name in case if name not in _CASE]
    if not isinstance(case.get("id"), str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", case["id"]):
        wrong.append((f"{path}.id", "has 1 to 40 letters, digits, '_' and '-'"))
    if case.get("should") not in ("pass", "fail"):
        wrong.append((f"{path}.should", "is pass or fail"))
    if case.get("kind", "example") not in CASE_KINDS:
        wrong.append((f"{path}.kind", f"is one of {', '.join(CASE_KINDS)}"))
    texts = [name for name in ("reply", "check") if case.get(name) is not None]
    if len(texts) != 1:
        wrong.append((path, "has either the reply of a model, or check: the words for a person who looks at it"))
    wrong += [
        (f"{path}.{name}", f"has 1 to {_MAX_TEXT} characters")
        for name in texts
        if not isinstance(case[name], str) or not 1 <= len(case[name]) <= _MAX_TEXT
    ]
    if "reply" in texts and not case.get("expect"):
        wrong.append((f"{path}.expect", "says what the reply must be like"))
    wrong += _typed(case.get("given"), _GIVEN, f"{path}.given") + _typed(case.get("expect"), _EXPECT, f"{path}.expect")
    return wrong + _pattern_problems(case.get("expect"), f"{path}.expect")


def _typed(found: Any, fields: Mapping[str, type], path: str) -> list[tuple[str, str]]:
    if found is None:
        return []
    if not isinstance(found, Mapping):
        return [(path, "is an object")]
    return [
        (f"{path}.{name}", f"is {with_article(_words(fields[name]))}" if name in fields else "is no field here")
        for name, value in found.items()
        if name not in fields
        or not isinstance(value, fields[name])
        or (isinstance(value, int) and fields[name] is int and (isinstance(value, bool) or value < 1))
    ]


def _words(kind: type) -> str:
    return {str: "text", bool: "boolean", int: "integer from 1 on", list: "list"}.get(kind, "object")


def _pattern_problems(expect: Any, path: str) -> list[tuple[str, str]]:
    wrong = []
    for name in ("must_match", "must_not_match"):
        patterns = expect.get(name, ()) if isinstance(expect, Mapping) else ()
        if isinstance(patterns, list) and len(patterns) > _MAX_PATTERNS:
            wrong.append((f"{path}.{name}", f"has at most {_MAX_PATTERNS} patterns"))
            continue
        for pattern in patterns if isinstance(patterns, list) else ():
            try:
                checked_pattern(pattern)
            except InvalidValue as error:
                wrong.append((f"{path}.{name}", error.message.removesuffix(".")))
    return wrong


def _case_to_json(case: TestCase) -> dict[str, Any]:
    found = {name: getattr(case, name) for name in _CASE}
    return {name: value for name, value in found.items() if value is not None}
