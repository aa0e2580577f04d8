"""Encodes events as JSON and decodes them, for types that the reader names: a stored name never decides what is
imported.

A type is written as its module and name. It is found by both, or by the name alone if only one of the known types
has that name. So a program can read what it wrote when its module was called `__main__`, and a class may move to
another module. A value is encoded as a ledger encodes a tool's result: it has to be parsed back into its type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from inspect import getsource
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from demiurge.errors import Damaged, InvalidValue, UsageError
from demiurge.sessions.reducers import event_types_of
from demiurge.sessions.session import Session
from demiurge.tools.authoring.params import ResultCodec
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.invoked import ToolInvoked
from demiurge.values.article import with_article

__all__ = ["EventCodec", "event_classes"]


def event_classes(kinds: Iterable[Any]) -> dict[type[Any], list[Any]]:
    """Returns the dataclasses and pydantic models among `kinds`, among their items and parts, and among the event
    types of their reducers; for each, the forms in which it is declared (`Page[int]`, `Page[str]`)."""
    found: dict[type[Any], list[Any]] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        owner = get_origin(kind) or kind
        if not (isinstance(owner, type) and (is_dataclass(owner) or issubclass(owner, BaseModel))):
            waiting += get_args(kind)
        elif owner is not ToolInvoked and kind not in found.setdefault(owner, []):
            found[owner].append(kind)
            waiting += event_types_of(owner)
    return found


class EventCodec:
    """`kinds`: dataclasses and pydantic models, in any form that `event_classes` accepts. Raises UsageError for two
    classes with the same module and name and for reducers that no session accepts, InvalidValue for types that
    pydantic does not support."""

    def __init__(self, kinds: Iterable[Any] = ()) -> None:
        self._forms: dict[type[Any], list[ResultCodec]] = {}
        self._names: dict[type[Any], str] = {}
        self._classes: dict[str, type[Any] | None] = {}
        for owner, forms in event_classes(kinds).items():
            name = f"{owner.__module__}:{owner.__qualname__}"
            if name in self._classes:
                raise UsageError(f"Two types are called {name}: rename one, so that its events can be told apart.")
            self._classes[name] = owner
            self._names[owner] = name
            self._forms[owner] = [ResultCodec(form) for form in forms]
        for owner in self._names:
            short = owner.__name__
            self._classes[short] = None if short in self._classes else owner
        self.prepare(Session())

    @property
    def classes(self) -> Collection[type[Any]]:
        return self._names.keys()

    def name(self, kind: type[Any]) -> str:
        """Returns the name under which values of this class are written. Raises InvalidValue for an unknown class."""
        if kind not in self._names:
            raise InvalidValue(f"{kind.__name__} is not a known event type: no tool declares it as its result")
        return self._names[kind]

    def find(self, name: object) -> type[Any] | None:
        """Returns the class that was written as `name`; None if it is unknown or ambiguous."""
        if not isinstance(name, str):
            return None
        return self._classes.get(name) or self._classes.get(name.rpartition(":")[2].rpartition(".")[2])

    def dump(self, value: object) -> Any:
        """Returns a value as JSON data. Raises InvalidValue for a value of an unknown class, or one that its class
        does not parse back."""
        self.name(type(value))
        for form in self._forms[type(value)]:
            try:
                return from_json(form.dump(value))
            except ToolValidationError:
                continue
        raise InvalidValue(f"{with_article(type(value).__name__)} holds what its type does not say")

    def load(self, kind: type[Any], data: object) -> Any:
        """Returns a value of a known class. Raises InvalidValue."""
        text = to_json(data)
        for form in self._forms[kind]:
            try:
                return form.load(text)
            except ToolValidationError:
                continue
        raise InvalidValue(f"{kind.__name__} does not take a value that was stored as one")

    def encode(self, event: object) -> dict[str, Any]:
        """Returns `{"type", "value"}`. Raises InvalidValue as `dump` does."""
        return {"type": self.name(type(event)), "value": self.dump(event)}

    def decode(self, node: object) -> Any:
        """Returns the event; None for one of an unknown class. Raises InvalidValue as `load` does, Damaged for data
        that is not an encoded event."""
        if not isinstance(node, Mapping) or node.keys() != {"type", "value"} or not isinstance(node["type"], str):
            raise Damaged("an event is stored as {type, value}")
        kind = self.find(node["type"])
        return None if kind is None else self.load(kind, node["value"])

    def prepare(self, session: Session) -> None:
        """Registers the reducers of the known classes in a session: those that a class method `fold_into(session)`
        registers, else the class's `@reducer` methods. Their initial state is what the class returns without
        arguments; a class that needs arguments begins with its first value. Raises UsageError."""
        for kind in self.classes:
            fold_into = getattr(kind, "fold_into", None)
            if callable(fold_into):
                fold_into(session)
            elif event_types_of(kind):
                session.install(kind, _initial(kind))

    @cached_property
    def digest(self) -> str:
        """A digest that differs for codecs whose sessions may differ for the same events: over the names of the
        classes, and the source of those that have reducers."""
        named_sources = [(name, _source(kind)) for kind, name in self._names.items()]
        return sha256(to_json(sorted(named_sources))).hexdigest()


def _initial(kind: type[Any]) -> Any:
    needed = (entry for entry in fields(kind) if entry.init)
    is_free = all(entry.default is not MISSING or entry.default_factory is not MISSING for entry in needed)
    return kind if is_free else None


def _source(kind: type[Any]) -> str:
    if not (event_types_of(kind) or hasattr(kind, "fold_into")):
        return ""
    try:
        return getsource(kind)
    except (OSError, TypeError):  # the class was defined interactively and has no source file
        return ""
