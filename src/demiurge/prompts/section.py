"""A section: one part of a prompt, with the tools that its text describes.

A section is immutable and knows nothing of prompts or turns. Parameters, the session and an override of its text are
passed to it, so one section can serve any number of prompts at once. Faults of the section itself are found here;
faults at its place in a prompt (placeholders, duplicate keys and tools) are found by PromptTemplate.
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
from demiurge.tools.authoring.tool import Tool, as_tool

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ParamsT = TypeVar("ParamsT", default=None)
else:
    from typing import TypeVar

    ParamsT = TypeVar("ParamsT")

__all__ = ["EnabledWhen", "Section", "VisibleWhen", "checked_key"]

EnabledWhen: TypeAlias = Callable[..., bool]
"""A function `()` or `(params)`, each optionally with a keyword-only `session`."""
VisibleWhen: TypeAlias = Callable[..., SectionVisibility]

_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def checked_key(key: object, what: str) -> str:
    """Returns `key` stripped and in lower case. Raises PromptValidationError unless it is 1 to 64 of a-z, 0-9, '.',
    '_', '-', beginning with a letter or a digit."""
    plain = key.strip().lower() if isinstance(key, str) else ""
    if not _KEY.fullmatch(plain):
        message = f"{what} {key!r}: a key is 1 to 64 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit"
        raise PromptValidationError(message, placeholder="key")
    return plain


_ARGUMENTS = (
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
    """A part of a prompt. `Section[Params]` takes its parameters from a dataclass bound to the prompt, or from
    `default_params`; an unsubscripted one has the type of `default_params`, or no parameters.

    `enabled` and a callable `visibility` take nothing or the parameters, and optionally a keyword-only `session`.
    `summary` is shown for SUMMARY; it may have placeholders. Raises PromptValidationError (a ValueError), TypeError
    for tools or children of another type."""

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
        arguments = (title, key, default_params, children, enabled, tools, accepts_overrides, summary, visibility)
        for name, value in zip(_ARGUMENTS, arguments, strict=True):
            _refuse_attribute(type(self), name, value)
        self.key = checked_key(key, "section")
        self.title = self._checked_title(title)
        self.default_params = default_params
        self.children = self._checked_entries("children", children, Section)
        self.tools = self._checked_entries("tools", tools, Tool)
        if not isinstance(accepts_overrides, bool):
            raise self._refusal("'accepts_overrides' must be True or False", "accepts_overrides")
        self.accepts_overrides = accepts_overrides
        if summary is not None and not (isinstance(summary, str) and summary.strip()):
            raise self._refusal("a summary must be text that is not empty", "summary")
        self.summary = None if summary is None else tidy(summary)
        self.enabled = enabled
        self.visibility = visibility
        self.asks_enabled = None if enabled is None else self._predicate("enabled", enabled)
        self.asks_visibility = self._predicate("visibility", visibility) if callable(visibility) else None
        if self.asks_visibility is None:
            self.visibility = self._constant(visibility)

    def __init_subclass__(cls, **options: Any) -> None:
        """Raises TypeError for a method or property with the name of an argument, because it would never be called."""
        super().__init_subclass__(**options)
        for name in _ARGUMENTS:
            if hasattr(cls.__dict__.get(name), "__get__"):
                raise TypeError(f"{cls.__name__} defines {name!r} as a method: {_instead(name)}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}>"

    @abstractmethod
    def render_body(self, params: ParamsT, *, session: Any = None, template: str | None = None) -> str:
        """Returns the text below the heading for these parameters (None for a section without). `session` is never
        None in a rendering: without a session it is a NullSession. `template`: use this instead of
        `original_body()`."""

    @abstractmethod
    def clone(self, **context: Any) -> Self:
        """Returns a copy of this section with its own children. `context` (`session=...`) is for sections that are
        bound to something; the others pass it on to their children."""

    def original_body(self) -> str | None:
        """Returns the text that an override replaces; None if nothing can be replaced."""
        return None

    @property
    def params_type(self) -> Any:
        """The class of its parameters, as declared and not yet checked; None for a section without parameters."""
        declared = getattr(self, "__orig_class__", None)
        kind = argument_of(Section, type(self), get_args(declared))
        if kind is None or isinstance(kind, TypeVar):
            return None if self.default_params is None else type(self.default_params)
        return None if kind is type(None) else kind

    def _checked_title(self, title: object) -> str:
        plain = title.strip() if isinstance(title, str) else ""
        if not plain or len(plain.splitlines()) > 1:
            raise self._refusal("a title must be one line of text", "title")
        return plain

    def _checked_entries(self, name: str, value: Iterable[Any] | None, kind: type) -> tuple[Any, ...]:
        if isinstance(value, kind):
            raise TypeError(f"section {self.key!r}: {name} are several {kind.__name__}s: put this one into a list")
        entries = () if value is None else tuple(value)
        if kind is Tool:
            return tuple(self._tool(entry) for entry in entries)
        for entry in entries:
            if not isinstance(entry, kind):
                raise TypeError(f"section {self.key!r}: {name} are {kind.__name__}s, not {type(entry).__name__}")
        return entries

    def _tool(self, entry: Any) -> Tool[Any, Any]:
        if not isinstance(entry, Tool) and (isinstance(entry, type) or not callable(entry)):
            raise TypeError(f"section {self.key!r}: tools are Tools or functions, not {type(entry).__name__}")
        try:
            return as_tool(entry)
        except PromptValidationError as error:
            raise self._refusal(error.message, "tools") from error

    def _predicate(self, name: str, function: Any) -> Predicate:
        try:
            return predicate(function)
        except ValueError as error:
            raise self._refusal(f"{name!r} {error}", name) from error

    def _constant(self, visibility: Any) -> SectionVisibility:
        try:
            return SectionVisibility(visibility)
        except ValueError:
            raise self._refusal("'visibility' must be FULL, SUMMARY or a function", "visibility") from None

    def _refusal(self, message: str, placeholder: str) -> PromptValidationError:
        return PromptValidationError(
            f"section {self.key!r}: {message}", section_path=(self.key,), placeholder=placeholder
        )


def _refuse_attribute(cls: type, name: str, value: object) -> None:
    """Raises TypeError if the class has another value for an argument than the one passed: the class's value would
    be ignored."""
    declared = getattr(cls, name, value)
    if declared is not value and declared != value:
        raise TypeError(f"{cls.__name__} has an attribute {name!r} that is never read: {_instead(name)}")


def _instead(name: str) -> str:
    return f"pass {name}=... to super().__init__() instead"
