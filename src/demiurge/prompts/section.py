"""A section: one part of a prompt, with the tools that its text speaks of.

A section is fixed once it is made and knows nothing of prompts or turns: parameters, the session and an override of
its text are handed to it, so one section serves any number of prompts at once. What is wrong with it alone is found
here; what is wrong with it at its place (placeholders, duplicate keys and tools) is found by PromptTemplate.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, get_args

from demiurge.prompts.errors import PromptValidationError
from demiurge.prompts.placeholders import tidy
from demiurge.prompts.predicate import Predicate, predicate
from demiurge.prompts.visibility import SectionVisibility
from demiurge.tools.authoring.named_types import argument_of
from demiurge.tools.authoring.tool import Tool, tool_problem

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ParamsT = TypeVar("ParamsT", default=None)
else:
    from typing import TypeVar

    ParamsT = TypeVar("ParamsT")

__all__ = ["EnabledWhen", "Section", "VisibleWhen", "checked_key"]

EnabledWhen: TypeAlias = Callable[..., bool]
"""`()`, `(params)`, each also with a keyword-only `session`."""
VisibleWhen: TypeAlias = Callable[..., SectionVisibility]

_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def checked_key(key: object, what: str) -> str:
    """`key` stripped and in lower case. Raises PromptValidationError unless it is 1 to 64 of a-z, 0-9, '.', '_', '-',
    beginning with a letter or a digit."""
    plain = key.strip().lower() if isinstance(key, str) else ""
    if not _KEY.fullmatch(plain):
        message = f"{what} {key!r}: a key is 1 to 64 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit"
        raise PromptValidationError(message, placeholder="key")
    return plain


_GIVEN = (
    "title",
    "key",
    "default_params",
    "children",
    "enabled",
    "tools",
    "accepts_overrides",
    "summary",
    "visibility",
)
"""The arguments of a section, which are its attributes once it is made."""


class Section(ABC, Generic[ParamsT]):
    """`Section[Params]` takes its parameters from a dataclass bound to the prompt, or from `default_params`; an
    unsubscripted one takes those of `default_params`, or none.

    `enabled` and a callable `visibility` take nothing or the parameters, and a keyword-only `session` if they want.
    `summary` is what SUMMARY shows, placeholders included. Raises PromptValidationError (a ValueError), TypeError for
    tools or children of another kind."""

    def __init__(
        self,
        *,
        title: str,
        key: str,
        default_params: ParamsT | None = None,
        children: Iterable[Section[Any]] | None = None,
        enabled: EnabledWhen | None = None,
        tools: Iterable[Tool[Any, Any]] | None = None,
        accepts_overrides: bool = True,
        summary: str | None = None,
        visibility: SectionVisibility | VisibleWhen = SectionVisibility.FULL,
    ) -> None:
        given = (title, key, default_params, children, enabled, tools, accepts_overrides, summary, visibility)
        for name, value in zip(_GIVEN, given, strict=True):
            _refuse_attribute(type(self), name, value)
        self.key = checked_key(key, "section")
        self.title = self._line(title)
        self.default_params = default_params
        self.children = self._all("children", children, Section)
        self.tools = self._all("tools", tools, Tool)
        if not isinstance(accepts_overrides, bool):
            raise self._refusal("'accepts_overrides' is True or False", "accepts_overrides")
        self.accepts_overrides = accepts_overrides
        if summary is not None and not (isinstance(summary, str) and summary.strip()):
            raise self._refusal("a summary is text", "summary")
        self.summary = None if summary is None else tidy(summary)
        self.enabled = enabled
        self.visibility = visibility
        self.asks_enabled = None if enabled is None else self._asked("enabled", enabled)
        self.asks_visibility = self._asked("visibility", visibility) if callable(visibility) else None
        if self.asks_visibility is None:
            self.visibility = self._constant(visibility)

    def __init_subclass__(cls, **options: Any) -> None:
        """Raises TypeError for a method or property by the name of an argument: nothing would ever call it."""
        super().__init_subclass__(**options)
        for name in _GIVEN:
            if hasattr(cls.__dict__.get(name), "__get__"):
                raise TypeError(f"{cls.__name__} defines {name!r} as a method: {_instead(name)}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}>"

    @abstractmethod
    def render_body(self, params: ParamsT, *, session: Any = None, template: str | None = None) -> str:
        """The text below the heading, for these parameters (None for a section without). `session` is never None in a
        rendering; without one it is a NullSession. `template`: use this instead of `original_body()`."""

    @abstractmethod
    def clone(self, **context: Any) -> Self:
        """A section like this one with children of its own. `context` (`session=...`) is for sections that are bound
        to something; the others hand it on to their children."""

    def original_body(self) -> str | None:
        """What an override replaces; None where nothing can be replaced."""
        return None

    @property
    def params_type(self) -> Any:
        """The class of its parameters; None for a section without any. As written, not yet checked."""
        declared = getattr(self, "__orig_class__", None)
        kind = argument_of(Section, type(self), get_args(declared))
        if kind is None or isinstance(kind, TypeVar):
            return None if self.default_params is None else type(self.default_params)
        return None if kind is type(None) else kind

    def _line(self, title: object) -> str:
        plain = title.strip() if isinstance(title, str) else ""
        if not plain or len(plain.splitlines()) > 1:
            raise self._refusal("a title is a line of text", "title")
        return plain

    def _all(self, name: str, given: Iterable[Any] | None, kind: type) -> tuple[Any, ...]:
        if isinstance(given, kind):
            raise TypeError(f"section {self.key!r}: {name} are several {kind.__name__}s: put this one into a list")
        entries = () if given is None else tuple(given)
        for entry in entries:
            if not isinstance(entry, kind):
                what = tool_problem(entry) if kind is Tool else f"not {type(entry).__name__}"
                raise TypeError(f"section {self.key!r}: {name} are {kind.__name__}s, {what}")
        return entries

    def _asked(self, name: str, function: Any) -> Predicate:
        try:
            return predicate(function)
        except ValueError as error:
            raise self._refusal(f"{name!r} {error}", name) from error

    def _constant(self, visibility: Any) -> SectionVisibility:
        try:
            return SectionVisibility(visibility)
        except ValueError:
            raise self._refusal("'visibility' is FULL, SUMMARY or a function", "visibility") from None

    def _refusal(self, message: str, placeholder: str) -> PromptValidationError:
        return PromptValidationError(
            f"section {self.key!r}: {message}", section_path=(self.key,), placeholder=placeholder
        )


def _refuse_attribute(cls: type, name: str, given: object) -> None:
    """Raises TypeError if a class has another value for an argument than it was given: that one would be lost."""
    declared = getattr(cls, name, given)
    if declared is not given and declared != given:
        raise TypeError(f"{cls.__name__} has an attribute {name!r} that nobody reads: {_instead(name)}")


def _instead(name: str) -> str:
    return f"give {name}=... to super().__init__() instead"
