"""One rendering of a prompt: it decides in one walk which sections show, how much of each, and which tools they
bring.

For a section that is not enabled, nothing else of it is evaluated, nor of the sections below it. For a summarized
one, its parameters are evaluated, and nothing below it. An error of a section's own code names the section.
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
    """The texts of overrides: bodies by path, tools by name, and by tool name the descriptions of parameters."""

    bodies: Mapping[SectionPath, str] = field(default_factory=dict)
    tools: Mapping[str, Tool[Any, Any]] = field(default_factory=dict)
    params: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Summarized(NamedTuple):
    """A section that shows its summary; `number` is the number in its heading."""

    node: SectionNode
    number: str


class Parts(NamedTuple):
    """The text of a rendering, its tools, and its summarized sections."""

    text: str
    tools: tuple[Tool[Any, Any], ...]
    summarized: tuple[Summarized, ...]


@dataclass(frozen=True, slots=True)
class _Collected:
    """The parts that a walk has collected so far."""

    texts: list[str] = field(default_factory=list)
    tools: list[Tool[Any, Any]] = field(default_factory=list)
    summarized: list[Summarized] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rendering:
    """The inputs of one rendering. `params` by their class; `visibility` by path, which takes precedence over the
    sections' own."""

    template: PromptTemplate[Any]
    params: Mapping[type, Any]
    session: Any
    visibility: Mapping[SectionPath, SectionVisibility]
    words: OverrideWords

    def parts(self) -> Parts:
        """Renders the prompt. Raises PromptRenderError."""
        collected = _Collected()
        count = self._siblings(self.template.nodes, "", collected, in_full=False)
        if (output := self.template.structured_output) is not None:
            collected.texts.append(f"## {count + 1}. Response format\n\n{output.instructions()}")
        return Parts("\n\n".join(collected.texts), tuple(collected.tools), tuple(collected.summarized))

    def in_full(self, summarized: Summarized) -> str:
        """Returns the text of a section and of everything enabled below it, none of it summarized."""
        collected = _Collected()
        self._section(summarized.node, summarized.number, collected, in_full=True)
        return "\n\n".join(collected.texts)

    def _siblings(self, nodes: Iterable[SectionNode], above: str, collected: _Collected, *, in_full: bool) -> int:
        shown = [node for node in nodes if self._is_enabled(node)]
        for index, node in enumerate(shown, 1):
            self._section(node, f"{above}{index}.", collected, in_full=in_full)
        return len(shown)

    def _section(self, node: SectionNode, number: str, collected: _Collected, *, in_full: bool) -> None:
        section = node.section
        params = self._params(node)
        heading = f"{'#' * (len(node.path) + 1)} {number} {section.title} ({dotted(node.path)})"
        if not in_full and self._visibility(node) is SectionVisibility.SUMMARY:
            summary = _guarded(node, "summary", lambda: fill(section.summary or "", params_values(params)))
            collected.texts.extend([heading, _text(node, summary), _how_to_open(node)])
            collected.summarized.append(Summarized(node, number))
            return
        collected.texts.append(heading)
        template = self.words.bodies.get(node.path)
        body = _guarded(node, "text", lambda: section.render_body(params, session=self.session, template=template))
        if _text(node, body).strip():
            collected.texts.append(body)
        tools = [self.words.tools.get(tool.name, tool) for tool in section.tools]
        if block := tools_block(tools, self.template.examples):
            collected.texts.append(block)
        collected.tools.extend(tools)
        self._siblings(node.children, number, collected, in_full=in_full)

    def _is_enabled(self, node: SectionNode) -> bool:
        answer = self._evaluate(node, node.section.asks_enabled, "enabled", default=True)
        if not isinstance(answer, bool):
            raise _refusal(node, f"'enabled' returned {type(answer).__name__}, not True or False")
        return answer

    def _visibility(self, node: SectionNode) -> SectionVisibility:
        section = node.section
        answer = self.visibility.get(node.path)
        if answer is None:
            answer = self._evaluate(node, section.asks_visibility, "visibility", default=section.visibility)
        try:
            visibility = SectionVisibility(answer)
        except ValueError:
            message = f"'visibility' returned {type(answer).__name__}, not a SectionVisibility"
            raise _refusal(node, message) from None
        if visibility is SectionVisibility.SUMMARY and section.summary is None:
            raise _refusal(node, "it has no summary to show")
        return visibility

    def _evaluate(self, node: SectionNode, predicate: Predicate | None, name: str, *, default: Any) -> Any:
        if predicate is None:
            return default
        params = self._params(node) if predicate.takes_params else None
        return _guarded(node, f"'{name}'", lambda: predicate(params, self.session))

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
    """Returns `text`. Raises PromptRenderError unless it is text that UTF-8 can encode."""
    if not isinstance(text, str):
        raise _refusal(node, f"its text is {type(text).__name__}, not str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(node, "its text has characters that UTF-8 can't encode") from error
    return text


def _guarded(node: SectionNode, what: str, call: Callable[[], ValueT]) -> ValueT:
    """Returns the result of `call`, which is code of the section's author. Raises PromptRenderError for everything
    it raises except a LoopSignal."""
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
