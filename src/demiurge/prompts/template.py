"""A prompt template: sections in a tree, checked as a whole when it is made.

Every fault that does not depend on parameters or a session is found here: duplicate keys and tool names,
placeholders without a field, a `$` that begins none, parameters that are not a dataclass, defaults of another type,
an output that cannot be described. So rendering only has to check for missing values.

A dotted path names one section: `a.b` may be the key of one section or the path of another, but not both in one
template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from demiurge.prompts.errors import PromptValidationError
from demiurge.prompts.output import StructuredOutput, structured_output
from demiurge.prompts.placeholders import names_in
from demiurge.prompts.section import Section, checked_key
from demiurge.prompts.tools_block import examples_text
from demiurge.prompts.visibility import SectionPath, SectionVisibility, dotted
from demiurge.tools.authoring.tool import Tool
from demiurge.values.article import with_article

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=None)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

__all__ = ["RESERVED_TOOL_NAMES", "PromptTemplate", "SectionNode", "checked_ns"]

RESERVED_TOOL_NAMES = frozenset({"open_sections", "read_section"})
"""Tools that a rendering adds itself if it summarizes a section."""

_MAX_NS = 200


@dataclass(frozen=True, slots=True)
class SectionNode:
    """A section at its place in the tree."""

    section: Section[Any]
    path: SectionPath
    children: tuple[SectionNode, ...]

    def walk(self) -> Iterator[SectionNode]:
        """Yields this node and all below it, in the order of the text."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def placeholders(self) -> frozenset[str]:
        """The names that its texts may use: the fields of its parameters."""
        kind = self.section.params_type
        return frozenset(entry.name for entry in fields(kind)) if kind is not None else frozenset()

    @property
    def has_tools(self) -> bool:
        """True if this section or one below it has a tool."""
        return any(node.section.tools for node in self.walk())


@dataclass(frozen=True)
class _TemplateOf:
    """The value of `PromptTemplate[Out]`: a constructor that knows the output type before any check runs."""

    origin: Callable[..., Any]
    output: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.origin(*args, output=self.output, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the base for a subclass, which finds the output type in its `__orig_bases__`."""
        return (self.origin,)

    def __or__(self, other: Any) -> Any:
        return self.origin | other

    __ror__ = __or__


@dataclass(frozen=True)  # not slotted: it is subscripted and called
class PromptTemplate(Generic[OutputT]):
    """`PromptTemplate(ns="support", key="triage", sections=[...])`; `PromptTemplate[Out]` also asks for an answer of
    that form: a dataclass, a pydantic model, or `list[...]` of one.

    `ns`: keys joined by `/`; `key`: as a section's; `name`: for people, by default `ns/key`. `allow_extra_keys`: the
    answer may have fields that Out does not have. Raises PromptValidationError."""

    ns: str
    key: str
    name: str | None = None
    sections: Sequence[Section[Any]] = ()
    allow_extra_keys: bool = False
    output: Any = field(default=None, kw_only=True, repr=False)
    nodes: tuple[SectionNode, ...] = field(init=False, repr=False, compare=False)
    structured_output: StructuredOutput | None = field(init=False, repr=False, compare=False)

    _declared: ClassVar[Any] = None
    """The output type of a subclass of `PromptTemplate[Out]`."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, item: Any) -> Any:
            if isinstance(item, TypeVar):
                return super().__class_getitem__(item)
            return _TemplateOf(cls, item)

    def __init_subclass__(cls, **options: Any) -> None:
        """Takes the output type that `class T(PromptTemplate[Out])` declares for all its prompts."""
        super().__init_subclass__(**options)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if isinstance(base, _TemplateOf):
                cls._declared = base.output

    def __post_init__(self) -> None:
        self._take_declared()
        object.__setattr__(self, "ns", checked_ns(self.ns))
        object.__setattr__(self, "key", checked_key(self.key, "prompt"))
        name = self.name.strip() if isinstance(self.name, str) else self.name
        if name is not None and not (isinstance(name, str) and name):
            raise PromptValidationError(f"prompt {self.key!r}: a name must not be empty", placeholder="name")
        object.__setattr__(self, "name", name)
        if isinstance(self.sections, Section):
            raise TypeError(f"prompt {self.key!r}: sections are several Sections: put this one into a list")
        sections = tuple(self.sections)
        for section in sections:
            if not isinstance(section, Section):
                raise TypeError(f"prompt {self.key!r}: sections are Sections, not {type(section).__name__}")
        object.__setattr__(self, "sections", sections)
        object.__setattr__(self, "nodes", tuple(_node(section, ()) for section in sections))
        _check_paths(self.walk())
        for node in self.walk():
            _check_params(node)
            _check_texts(node)
        _check_tools(self.walk())
        wanted = self.output is not None and self.output is not type(None)
        made = structured_output(self.output, allow_extra_keys=self.allow_extra_keys) if wanted else None
        object.__setattr__(self, "structured_output", made)

    def _take_declared(self) -> None:
        """Takes the output type that the class declares. Raises PromptValidationError for another one."""
        if self.output is None:
            object.__setattr__(self, "output", self._declared)
        elif self._declared is not None and self.output != self._declared:
            message = f"prompt {self.key!r}: its class declares another output than {self.output!r}"
            raise PromptValidationError(message, placeholder="OutputT")

    def walk(self) -> Iterator[SectionNode]:
        """Yields every section at its place, in the order of the text."""
        for node in self.nodes:
            yield from node.walk()

    @cached_property
    def by_path(self) -> Mapping[SectionPath, SectionNode]:
        return {node.path: node for node in self.walk()}

    @cached_property
    def params_types(self) -> frozenset[type]:
        """The dataclasses that `bind` accepts."""
        return frozenset(node.section.params_type for node in self.walk()) - {None}

    @cached_property
    def examples(self) -> Mapping[str, str]:
        """The examples of each tool as text, by the tool's name."""
        return {tool.name: examples_text(tool) for tool in self.tools}

    @property
    def tools(self) -> tuple[Tool[Any, Any], ...]:
        """The tools of all sections, in declaration order."""
        return tuple(tool for node in self.walk() for tool in node.section.tools)


def _node(section: Section[Any], above: SectionPath) -> SectionNode:
    path = (*above, section.key)
    return SectionNode(section, path, tuple(_node(child, path) for child in section.children))


def checked_ns(ns: object) -> str:
    """Returns keys joined by `/`, each checked by `checked_key`. Raises PromptValidationError."""
    if not isinstance(ns, str) or len(ns) > _MAX_NS:
        raise PromptValidationError(f"an ns must have at most {_MAX_NS} characters", placeholder="ns")
    return "/".join(checked_key(part, "ns") for part in ns.strip().split("/"))


def _check_paths(nodes: Iterable[SectionNode]) -> None:
    seen: dict[str, SectionPath] = {}
    for node in nodes:
        name = dotted(node.path)
        if name in seen:
            raise _refusal(node, "there is another section with this path", placeholder="key")
        seen[name] = node.path


def _check_params(node: SectionNode) -> None:
    kind, default = node.section.params_type, node.section.default_params
    if kind is None:
        return
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise _refusal(node, f"the parameters must be a dataclass, not {kind!r}", placeholder="ParamsT")
    if default is not None and type(default) is not kind:
        raise _refusal(
            node, f"the default parameters must be {with_article(kind.__name__)}", placeholder="default_params"
        )


def _check_texts(node: SectionNode) -> None:
    section = node.section
    if section.visibility is SectionVisibility.SUMMARY and section.summary is None:
        raise _refusal(node, "its visibility is SUMMARY, but it has no summary", placeholder="summary")
    for what, text in (("template", section.original_body()), ("summary", section.summary)):
        if text is None:
            continue
        try:
            used = names_in(text)
        except ValueError as error:
            raise _refusal(node, f"the {what}, {error}", placeholder="$") from error
        for name in used:
            if name not in node.placeholders:
                message = f"the {what} has ${name}, which no parameter fills; {_parameters(node)}"
                raise _refusal(node, message, placeholder=name)


def _parameters(node: SectionNode) -> str:
    if node.section.params_type is None:
        return f"a section with parameters is made as {type(node.section).__name__}[Params]"
    return f"there are: {', '.join(sorted(node.placeholders)) or 'none'}"


def _check_tools(nodes: Iterable[SectionNode]) -> None:
    seen: dict[str, SectionNode] = {}
    for node in nodes:
        for tool in node.section.tools:
            if tool.name in seen:
                first = dotted(seen[tool.name].path)
                message = f"there is another tool {tool.name!r}, in section {first!r}"
                raise _refusal(node, message, placeholder=tool.name, kind=tool.params_type)
            if tool.name in RESERVED_TOOL_NAMES:
                message = f"the tool name {tool.name!r} is reserved: prompts have a tool of their own with this name"
                raise _refusal(node, message, placeholder=tool.name, kind=tool.params_type)
            seen[tool.name] = node


def _refusal(node: SectionNode, message: str, *, placeholder: str, kind: Any = None) -> PromptValidationError:
    declared = node.section.params_type if kind is None else kind
    return PromptValidationError(
        f"section {dotted(node.path)!r}: {message}",
        section_path=node.path,
        dataclass_type=declared if isinstance(declared, type) else None,
        placeholder=placeholder,
    )
