"""`MarkdownSection`: a section whose text is a `string.Template` with the fields of its parameters as placeholders."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from typing import Any, Self

from demiurge.prompts.placeholders import fill, tidy
from demiurge.prompts.section import EnabledWhen, ParamsT, Section, VisibleWhen
from demiurge.prompts.visibility import SectionVisibility
from demiurge.tools.authoring.tool import Tool

__all__ = ["MarkdownSection", "params_values"]


class MarkdownSection(Section[ParamsT]):
    """`MarkdownSection[Params](title=..., template="Look after $name.", key=...)`; without `[Params]` it has no
    parameters, or those of `default_params`.

    `template` is dedented and stripped. A value is inserted as `str(value)`, once: a `$` or a heading in it is plain
    text. The other keywords: see Section."""

    def __init__(
        self,
        *,
        title: str,
        template: str,
        key: str,
        default_params: ParamsT | None = None,
        children: Iterable[Section[Any]] | None = None,
        enabled: EnabledWhen | None = None,
        tools: Iterable[Tool[Any, Any]] | None = None,
        accepts_overrides: bool = True,
        summary: str | None = None,
        visibility: SectionVisibility | VisibleWhen = SectionVisibility.FULL,
    ) -> None:
        super().__init__(
            title=title,
            key=key,
            default_params=default_params,
            children=children,
            enabled=enabled,
            tools=tools,
            accepts_overrides=accepts_overrides,
            summary=summary,
            visibility=visibility,
        )
        if not isinstance(template, str):
            raise self._refusal("a template must be text", "template")
        self.template = tidy(template)

    def render_body(self, params: ParamsT, *, session: Any = None, template: str | None = None) -> str:
        """Returns the template with the values of `params`; see Section."""
        return fill(self.template if template is None else template, params_values(params))

    def clone(self, **context: Any) -> Self:
        """Returns a copy with its own children; see Section."""
        twin = copy.copy(self)
        twin.children = tuple(child.clone(**context) for child in self.children)
        return twin

    def original_body(self) -> str:
        """Returns the template."""
        return self.template


def params_values(params: Any) -> dict[str, Any]:
    """Returns the values of placeholders: the fields of a dataclass; `{}` for None."""
    if params is None:
        return {}
    return {entry.name: getattr(params, entry.name) for entry in dataclasses.fields(params)}
