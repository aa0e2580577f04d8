"""Sections and tools to build prompts of."""

from dataclasses import dataclass
from typing import Any

from demiurge.prompts import MarkdownSection, Prompt, PromptTemplate, Section
from demiurge.tools import Tool, ToolContext, ToolExample, ToolResult


@dataclass(frozen=True)
class Guest:
    name: str
    nights: int = 1


@dataclass(frozen=True)
class Room:
    number: int = 7


@dataclass(frozen=True)
class Ask:
    """What to look for.

    Args:
        words: The words to look for.
    """

    words: str


@dataclass(frozen=True)
class Found:
    text: str


def look(params: Ask, *, context: ToolContext) -> ToolResult[Found]:
    return ToolResult("Found.", Found(params.words))


def a_tool(name: str = "look_up", **options: Any) -> Tool[Any, Any]:
    return Tool[Ask, Found](name=name, description=options.pop("description", "Looks it up."), handler=look, **options)


EXAMPLE = ToolExample("A word.", Ask("bolt"), Found("a `bolt`\nis here"))


def section(key: str = "guidance", template: str = "Be kind.", kind: Any = MarkdownSection, **options: Any) -> Any:
    """A section whose title is its key, capitalised."""
    return kind(**{"title": key.capitalize(), "key": key, "template": template, **options})


def template(*sections: Section[Any], kind: Any = PromptTemplate, **options: Any) -> PromptTemplate[Any]:
    made: PromptTemplate[Any] = kind(ns="hotel", key="desk", sections=sections, **options)
    return made


def prompt(*sections: Section[Any], **options: Any) -> Prompt[Any]:
    return Prompt(template(*sections, **options))


def text_of(*sections: Section[Any], session: Any = None) -> str:
    return prompt(*sections).render(session=session).text
