"""Overrides: other texts for a prompt's sections and tools, kept outside the code.

An override names the text that it replaces by its hash. If the text in the code changes, the override is stale: it
was written for something else, so it is not applied, is logged, and is listed on the rendered prompt. An override
changes texts only; which tools there are, what they take and what they do is decided by the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from demiurge.prompts.errors import PromptValidationError
from demiurge.prompts.placeholders import names_in, tidy
from demiurge.prompts.section import checked_key
from demiurge.prompts.template import PromptTemplate, checked_ns
from demiurge.prompts.visibility import SectionPath, dotted
from demiurge.tools.authoring.hidden_text import hidden_character
from demiurge.tools.authoring.texts import MAX_DESCRIPTION, MAX_DETAILS, text_problem, tidy_text
from demiurge.tools.authoring.tool import Tool
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of

__all__ = [
    "IgnoredOverride",
    "OverrideFault",
    "PromptDescriptor",
    "PromptOverride",
    "SectionDescriptor",
    "SectionOverride",
    "ToolDescriptor",
    "ToolOverride",
    "describe",
    "with_override",
]

OverrideFault: TypeAlias = Literal["unknown", "refused", "stale", "invalid"]
"""`unknown`: the prompt has no such part; `refused`: it does not accept overrides; `stale`: its text has changed;
`invalid`: the new text cannot be used there."""


@dataclass(frozen=True, slots=True)
class SectionDescriptor:
    """A section's text. `content_hash`: `sha256:<hex>` of the text that an override replaces. `placeholders`: those
    that the new text may use."""

    path: SectionPath
    content_hash: str
    accepts_overrides: bool
    placeholders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolDescriptor:
    """A tool's texts. `path`: its section. `contract_hash`: `sha256:<hex>` of description, details and schema.
    `params`: names in the schema."""

    path: SectionPath
    name: str
    contract_hash: str
    accepts_overrides: bool
    params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SectionOverride:
    """`body` replaces the text whose hash is `expected_hash`; it is dedented and stripped, and may use the same
    placeholders."""

    path: SectionPath
    expected_hash: str
    body: str


@dataclass(frozen=True, slots=True)
class ToolOverride:
    """A `description`, `details` (None: unchanged) and descriptions of parameters, which replace those of the contract
    whose hash is `expected_hash`."""

    name: str
    expected_hash: str
    description: str | None = None
    param_descriptions: Mapping[str, str] = field(default_factory=dict, hash=False)
    details: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "param_descriptions", dict(self.param_descriptions))


@dataclass(frozen=True, slots=True)
class PromptOverride:
    """All overrides of one prompt under one tag. Raises PromptValidationError if a part is named twice, and for an
    invalid ns, key or tag."""

    ns: str
    prompt_key: str
    tag: str = "latest"
    sections: tuple[SectionOverride, ...] = ()
    tools: tuple[ToolOverride, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ns", checked_ns(self.ns))
        object.__setattr__(self, "prompt_key", checked_key(self.prompt_key, "prompt"))
        object.__setattr__(self, "tag", checked_key(self.tag, "tag"))
        object.__setattr__(self, "sections", tuple(self.sections))
        object.__setattr__(self, "tools", tuple(self.tools))
        if len({part.path for part in self.sections}) < len(self.sections):
            raise PromptValidationError("an override names a section twice", placeholder="sections")
        if len({part.name for part in self.tools}) < len(self.tools):
            raise PromptValidationError("an override names a tool twice", placeholder="tools")


@dataclass(frozen=True, slots=True)
class IgnoredOverride:
    """A part of a stored override that a rendering did not apply. `name`: a dotted path, or a tool's name;
    `section_path`: the path of the section or of the tool's section, None for an unknown tool."""

    kind: Literal["section", "tool"]
    name: str
    section_path: SectionPath | None
    fault: OverrideFault
    message: str


@dataclass(frozen=True, slots=True)
class PromptDescriptor:
    """The parts of a prompt and the hashes of their texts; overrides are written against it."""

    ns: str
    key: str
    sections: tuple[SectionDescriptor, ...] = ()
    tools: tuple[ToolDescriptor, ...] = ()

    def section_override(self, path: SectionPath, body: str) -> SectionOverride:
        """Returns an override of the section's present text. Raises PromptValidationError if it cannot be applied."""
        found = self.section(path)
        made = SectionOverride(path, found.content_hash if found is not None else "", tidy(body))
        _raise(_section_fault(found, made))
        return made

    def tool_override(
        self,
        name: str,
        description: str | None = None,
        param_descriptions: Mapping[str, str] | None = None,
        *,
        details: str | None = None,
    ) -> ToolOverride:
        """Returns an override of the tool's present contract. Raises PromptValidationError if it cannot be applied."""
        found = self.tool(name)
        expected = found.contract_hash if found is not None else ""
        made = ToolOverride(name, expected, description, dict(param_descriptions or {}), details)
        _raise(_tool_fault(found, made))
        return made

    def section(self, path: SectionPath) -> SectionDescriptor | None:
        """Returns the section's descriptor; None if it does not exist, or has no text to override."""
        return next((part for part in self.sections if part.path == path), None)

    def tool(self, name: str) -> ToolDescriptor | None:
        """Returns the tool's descriptor; None if it does not exist."""
        return next((part for part in self.tools if part.name == name), None)

    def check(self, override: PromptOverride) -> None:
        """Raises PromptValidationError unless every part of `override` can be applied to this prompt as it is."""
        if (override.ns, override.prompt_key) != (self.ns, self.key):
            message = f"the override is of {override.ns}/{override.prompt_key}, not of {self.ns}/{self.key}"
            raise PromptValidationError(message, placeholder="override")
        for ignored in self.ignored(override):
            _raise(ignored)

    def ignored(self, override: PromptOverride) -> tuple[IgnoredOverride, ...]:
        """Returns the parts of `override` that cannot be applied, and why."""
        sections = [_section_fault(self.section(part.path), part) for part in override.sections]
        tools = [_tool_fault(self.tool(part.name), part) for part in override.tools]
        return tuple(fault for fault in (*sections, *tools) if fault is not None)


def describe(template: PromptTemplate[Any]) -> PromptDescriptor:
    """Returns the descriptor of a template. Sections without a text of their own are left out."""
    sections: list[SectionDescriptor] = []
    tools: list[ToolDescriptor] = []
    for node in template.walk():
        if (body := node.section.original_body()) is not None:
            names = tuple(sorted(node.placeholders))
            sections.append(SectionDescriptor(node.path, ref_of(body.encode()), node.section.accepts_overrides, names))
        tools.extend(_described(node.path, tool) for tool in node.section.tools)
    return PromptDescriptor(template.ns, template.key, tuple(sections), tuple(tools))


def with_override(tool: Tool[Any, Any], override: ToolOverride) -> Tool[Any, Any]:
    """Returns the tool with the override's descriptions, and so with another spec hash. Raises
    PromptValidationError."""
    schema = dict(tool.spec.input_schema)
    texts = override.param_descriptions
    schema["properties"] = {
        name: {**child, "description": texts[name]} if name in texts else child
        for name, child in schema["properties"].items()
    }
    description = tool.description if override.description is None else override.description
    details = tool.details if override.details is None else override.details
    twin = replace(tool, description=description, details=details)
    spec = replace(twin.spec, input_schema=schema, spec_hash="")
    object.__setattr__(twin, "spec", spec)
    object.__setattr__(twin, "bound", replace(twin.bound, spec=spec))
    return twin


def _described(path: SectionPath, tool: Tool[Any, Any]) -> ToolDescriptor:
    contract = {"description": tool.description, "input_schema": tool.spec.input_schema}
    contract |= {"details": tool.details} if tool.details else {}
    names = tuple(tool.spec.input_schema["properties"])
    digest = ref_of(canonical_json.encode(contract))
    return ToolDescriptor(path, tool.name, digest, tool.accepts_overrides, names)


def _section_fault(found: SectionDescriptor | None, override: SectionOverride) -> IgnoredOverride | None:
    name = dotted(override.path)
    fault: tuple[OverrideFault, str] | None = None
    if found is None:
        fault = "unknown", "the prompt has no such section, or it has no text to override"
    elif not found.accepts_overrides:
        fault = "refused", "it does not accept overrides"
    elif found.content_hash != override.expected_hash:
        fault = "stale", "its text has changed since the override was written"
    elif problem := _body_problem(override.body, found.placeholders):
        fault = "invalid", problem
    if fault is None:
        return None
    return IgnoredOverride("section", name, override.path, fault[0], f"section {name!r}: {fault[1]}")


def _tool_fault(found: ToolDescriptor | None, override: ToolOverride) -> IgnoredOverride | None:
    name = override.name
    fault: tuple[OverrideFault, str] | None = None
    if found is None:
        fault = "unknown", "the prompt has no such tool"
    elif not found.accepts_overrides:
        fault = "refused", "it does not accept overrides"
    elif found.contract_hash != override.expected_hash:
        fault = "stale", "its description or its schema has changed since the override was written"
    elif problem := _description_problem(override, found.params):
        fault = "invalid", problem
    if fault is None:
        return None
    path = found.path if found is not None else None
    return IgnoredOverride("tool", name, path, fault[0], f"tool {name!r}: {fault[1]}")


def _body_problem(body: str, placeholders: tuple[str, ...]) -> str | None:
    if not body.strip():
        return "the new text is empty"
    if hidden := hidden_character(body.replace("\r\n", "\n")):
        return f"the new text has the invisible character {hidden}"
    try:
        unknown = [name for name in names_in(tidy(body)) if name not in placeholders]
    except ValueError as error:
        return f"the new text, {error}"
    return f"the new text has ${unknown[0]}, which no parameter fills" if unknown else None


def _description_problem(override: ToolOverride, params: tuple[str, ...]) -> str | None:
    unknown = sorted(set(override.param_descriptions) - set(params))
    if unknown:
        return f"it has no parameter {unknown[0]!r}"
    texts = list(override.param_descriptions.values())
    limits = (("description", override.description, MAX_DESCRIPTION), ("details", override.details, MAX_DETAILS))
    for name, words, limit in limits:
        if words is None:
            continue
        what, may_be_empty = f"the new {name}", name == "details"
        words = tidy_text(words)
        if problem := text_problem(what, words, limit=limit, advice="shorten it", may_be_empty=may_be_empty):
            return problem
    if not all(text.strip() for text in texts):
        return "a parameter's description must not be empty"
    hidden = next(filter(None, map(hidden_character, texts)), None)
    return f"the new words have the invisible character {hidden}" if hidden else None


def _raise(ignored: IgnoredOverride | None) -> None:
    if ignored is not None:
        raise PromptValidationError(
            ignored.message,
            section_path=ignored.section_path,
            placeholder=ignored.name,
            code=f"override_{ignored.fault}",
        )
