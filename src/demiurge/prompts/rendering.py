"""One rendering: which sections show, how much of each, and what follows from it, decided in one walk.

A section that is not enabled is not asked for anything else, nor is anything below it. A summarised one is asked for
its parameters, and nothing below it is. Whatever a section's own code raises names the section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from demiurge.prompts.errors import PromptRenderError
from demiurge.prompts.markdown import params_values
from demiurge.prompts.placeholders import fill
from demiurge.prompts.predicate import Predicate
from demiurge.prompts.template import PromptTemplate, SectionNode
from demiurge.prompts.tools_block import tools_block
from demiurge.prompts.visibility import SectionPath, SectionVisibility, dotted
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.errors import LoopSignal
from demiurge.values.article import with_article

__all__ = ["OverrideWords", "Parts", "Rendering", "Summarized"]

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class OverrideWords:
    """What overrides say instead: bodies by path, tools by name, and of those what is said of parameters."""

    bodies: Mapping[SectionPath, str] = field(default_factory=dict)
    tools: Mapping[str, Tool[Any, Any]] = field(default_factory=dict)
    params: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Summarized(NamedTuple):
    """A section that shows its summary; `number` is that of its heading."""

    node: SectionNode
    number: str


class Parts(NamedTuple):
    text: str
    tools: tuple[Tool[Any, Any], ...]
    summarized: tuple[Summarized, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """What a walk has come across so far."""

    texts: list[str] = field(default_factory=list)
    tools: list[Tool[Any, Any]] = field(default_factory=list)
    summarized: list[Summarized] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rendering:
    """`params` by their class; `visibility` by path, over what sections say themselves."""

    template: PromptTemplate[Any]
    params: Mapping[type, Any]
    session: Any
    visibility: Mapping[SectionPath, SectionVisibility]
    words: OverrideWords

    def parts(self) -> Parts:
        """Raises PromptRenderError."""
        found = _Found()
        count = self._siblings(self.template.nodes, "", found, in_full=False)
        if (output := self.template.structured_output) is not None:
            found.texts.append(f"## {count + 1}. Response format\n\n{output.instructions()}")
        return Parts("\n\n".join(found.texts), tuple(found.tools), tuple(found.summarized))

    def in_full(self, summarized: Summarized) -> str:
        """The text of a section, and of all that is enabled below it, none of it summarised."""
        found = _Found()
        self._section(summarized.node, summarized.number, found, in_full=True)
        return "\n\n".join(found.texts)

    def _siblings(self, nodes: Iterable[SectionNode], above: str, found: _Found, *, in_full: bool) -> int:
        shown = [node for node in nodes if self._is_enabled(node)]
        for index, node in enumerate(shown, 1):
            self._section(node, f"{above}{index}.", found, in_full=in_full)
        return len(shown)

    def _section(self, node: SectionNode, number: str, found: _Found, *, in_full: bool) -> None:
        section = node.section
        params = self._params(node)
        heading = f"{'#' * (len(node.path) + 1)} {number} {section.title} ({dotted(node.path)})"
        if not in_full and self._visibility(node) is SectionVisibility.SUMMARY:
            summary = _guarded(node, "summary", lambda: fill(section.summary or "", params_values(params)))
            found.texts.extend([heading, _text(node, summary), _how_to_open(node)])
            found.summarized.append(Summarized(node, number))
            return
        found.texts.append(heading)
        template = self.words.bodies.get(node.path)
        body = _guarded(node, "text", lambda: section.render_body(params, session=self.session, template=template))
        if _text(node, body).strip():
            found.texts.append(body)
        tools = [self.words.tools.get(tool.name, tool) for tool in section.tools]
        if block := tools_block(tools, self.template.examples):
            found.texts.append(block)
        found.tools.extend(tools)
        self._siblings(node.children, number, found, in_full=in_full)

    def _is_enabled(self, node: SectionNode) -> bool:
        answer = self._answer(node, node.section.asks_enabled, "enabled", default=True)
        if not isinstance(answer, bool):
            raise _refusal(node, f"'enabled' gave {type(answer).__name__}, not True or False")
        return answer

    def _visibility(self, node: SectionNode) -> SectionVisibility:
        section = node.section
        answer = self.visibility.get(node.path)
        if answer is None:
            answer = self._answer(node, section.asks_visibility, "visibility", default=section.visibility)
        try:
            visibility = SectionVisibility(answer)
        except ValueError:
            message = f"'visibility' gave {type(answer).__name__}, not a SectionVisibility"
            raise _refusal(node, message) from None
        if visibility is SectionVisibility.SUMMARY and section.summary is None:
            raise _refusal(node, "it has no summary to show")
        return visibility

    def _answer(self, node: SectionNode, question: Predicate | None, name: str, *, default: Any) -> Any:
        if question is None:
            return default
        params = self._params(node) if question.takes_params else None
        return _guarded(node, f"'{name}'", lambda: question(params, self.session))

    def _params(self, node: SectionNode) -> Any:
        kind = node.section.params_type
        if kind is None:
            return None
        if kind in self.params:
            return self.params[kind]
        if node.section.default_params is not None:
            return node.section.default_params
        missing = [entry.name for entry in fields(kind) if entry.init and not _has_default(entry)]
        if missing:
            raise _refusal(node, f"it needs {with_article(kind.__name__)}: bind one", placeholder=missing[0])
        return _guarded(node, "parameters", kind)


def _has_default(entry: Any) -> bool:
    return entry.default is not MISSING or entry.default_factory is not MISSING


def _how_to_open(node: SectionNode) -> str:
    call = "open_sections" if node.has_tools else "read_section"
    rest = "the whole section and its tools" if node.has_tools else "the whole section"
    return f"(This is a summary. For {rest}, call `{call}` with the key `{dotted(node.path)}`.)"


def _text(node: SectionNode, text: Any) -> str:
    """`text`, if it is one that UTF-8 can write."""
    if not isinstance(text, str):
        raise _refusal(node, f"its text is {type(text).__name__}, not str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(node, "its text has characters that UTF-8 can't write") from error
    return text


def _guarded(node: SectionNode, what: str, call: Callable[[], ValueT]) -> ValueT:
    """What `call`, code of the section's author, gives. Raises PromptRenderError for all that it raises, but for
    what is meant for the loop."""
    try:
        return call()
    except LoopSignal:
        raise
    except Exception as error:
        raise _refusal(node, f"its {what} raised {type(error).__name__}: {error}") from error


def _refusal(node: SectionNode, message: str, *, placeholder: str | None = None) -> PromptRenderError:
    return PromptRenderError(
        f"section {dotted(node.path)!r}: {message}",
        section_path=node.path,
        dataclass_type=node.section.params_type,
        placeholder=placeholder,
    )
