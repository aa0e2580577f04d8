"""The two tools that a rendering adds if it summarizes sections.

`open_sections` ends the evaluation: the loop renders again with the sections shown in full, and so with their tools.
`read_section` returns the text of a section without tools at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from demiurge.prompts.errors import VisibilityExpansionRequired
from demiurge.prompts.rendering import Rendering, Summarized
from demiurge.prompts.visibility import SectionVisibility, dotted
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolUserError
from demiurge.tools.result import ToolResult

__all__ = ["OpenSections", "ReadSection", "expansion_tools"]


@dataclass(frozen=True, slots=True)
class OpenSections:
    section_keys: tuple[str, ...] = field(metadata={"description": "Keys of the sections, as the headings give them."})
    reason: str = field(metadata={"description": "Why they are needed now, in a sentence."})


@dataclass(frozen=True, slots=True)
class ReadSection:
    section_key: str = field(metadata={"description": "The key of the section, as its heading gives it."})


def expansion_tools(rendering: Rendering, summarized: Iterable[Summarized]) -> tuple[Tool[Any, Any], ...]:
    """Returns `open_sections` for these sections and `read_section` for those without tools; each only if it applies
    to a section."""
    by_key = {dotted(entry.node.path): entry for entry in summarized}
    readable = {key: entry for key, entry in by_key.items() if not entry.node.has_tools}
    open_tools: list[Tool[Any, Any]] = [_open_sections(by_key)] if by_key else []
    return (*open_tools, _read_section(rendering, readable)) if readable else tuple(open_tools)


def _open_sections(by_key: dict[str, Summarized]) -> Tool[Any, Any]:
    def open_sections(params: OpenSections, *, context: ToolContext) -> ToolResult[None]:
        keys = tuple(dict.fromkeys(params.section_keys))
        if not keys:
            raise ToolUserError(f"Name at least one section: {', '.join(by_key)}.")
        for key in keys:
            _find_section(by_key, key)
        raise VisibilityExpansionRequired(
            f"The model asks to see {', '.join(keys)} in full.",
            requested_overrides={by_key[key].node.path: SectionVisibility.FULL for key in keys},
            reason=params.reason,
            section_keys=keys,
        )

    return Tool[OpenSections, None](
        name="open_sections",
        description="Shows summarised sections in full, with the tools that they bring.",
        handler=open_sections,
        accepts_overrides=False,
        effect=ToolEffect.READ_ONLY,
        inline=True,
    )


def _read_section(rendering: Rendering, by_key: dict[str, Summarized]) -> Tool[Any, Any]:
    def read_section(params: ReadSection, *, context: ToolContext) -> ToolResult[None]:
        return ToolResult(message=rendering.in_full(_find_section(by_key, params.section_key)))

    return Tool[ReadSection, None](
        name="read_section",
        description="Gives the full text of a summarised section.",
        handler=read_section,
        accepts_overrides=False,
        effect=ToolEffect.READ_ONLY,
        inline=True,
    )


def _find_section(by_key: dict[str, Summarized], key: str) -> Summarized:
    if key not in by_key:
        raise ToolUserError(f"There is no summarised section with this key. There are: {', '.join(by_key)}.")
    return by_key[key]
