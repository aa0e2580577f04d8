"""Events as JSON and back, by types that the reader names: a stored name never says what is imported.

A type is written as its module and name, and read back by both or, where only one of the known types has that name, by
the name alone: so a program reads what it wrote when it was called `__main__`, and a class may move. A value is what a
tool's result is to a ledger: re-parsed into its type.
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
    """The dataclasses and pydantic models among `kinds`, among their items and parts, and among what the reducers of
    those take; with each, the forms it is declared in (`Page[int]`, `Page[str]`)."""
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
    """`kinds`: dataclasses and pydantic models, as `event_classes` takes them. Raises UsageError for two classes that
    share module and name and for reducers that no session takes, InvalidValue for what pydantic can't handle."""

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
        """What values of this class are written under. Raises InvalidValue for a class that is not known."""
        if kind not in self._names:
            raise InvalidValue(f"{kind.__name__} is no event here: no tool declares it as its result")
        return self._names[kind]

    def find(self, name: object) -> type[Any] | None:
        """The class that was written as `name`; None when it is not, or not surely, among those known here."""
        if not isinstance(name, str):
            return None
        return self._classes.get(name) or self._classes.get(name.rpartition(":")[2].rpartition(".")[2])

    def dump(self, value: object) -> Any:
        """A value as JSON data. Raises InvalidValue for one of a class that is not known or does not take it back."""
        self.name(type(value))
        for form in self._forms[type(value)]:
            try:
                return from_json(form.dump(value))
            except ToolValidationError:
                continue
        raise InvalidValue(f"{with_article(type(value).__name__)} holds what its type does not say")

    def load(self, kind: type[Any], data: object) -> Any:
        """A value of a known class. Raises InvalidValue."""
        text = to_json(data)
        for form in self._forms[kind]:
            try:
                return form.load(text)
            except ToolValidationError:
                continue
        raise InvalidValue(f"{kind.__name__} does not take a value that was stored as one")

    def encode(self, event: object) -> dict[str, Any]:
        """`{"type", "value"}`. Raises InvalidValue as `dump` does."""
        return {"type": self.name(type(event)), "value": self.dump(event)}

    def decode(self, node: object) -> Any:
        """The event; None for one of a class that is not known here. Raises InvalidValue as `load` does, Damaged for
        what no event was ever written as."""
        if not isinstance(node, Mapping) or node.keys() != {"type", "value"} or not isinstance(node["type"], str):
            raise Damaged("an event is stored as {type, value}")
        kind = self.find(node["type"])
        return None if kind is None else self.load(kind, node["value"])

    def prepare(self, session: Session) -> None:
        """Gives a session the reducers of the known classes: what a class method `fold_into(session)` registers, else
        its `@reducer` methods. Their first state is what the class makes without arguments; a class that needs some
        begins with its first value. Raises UsageError."""
        for kind in self.classes:
            fold_into = getattr(kind, "fold_into", None)
            if callable(fold_into):
                fold_into(session)
            elif event_types_of(kind):
                session.install(kind, _initial(kind))

    @cached_property
    def digest(self) -> str:
        """Tells codecs apart whose sessions may differ for the same events: by the names of the classes, and by the
        source of those that have reducers."""
        told = [(name, _source(kind)) for kind, name in self._names.items()]
        return sha256(to_json(sorted(told))).hexdigest()


def _initial(kind: type[Any]) -> Any:
    needed = (entry for entry in fields(kind) if entry.init)
    is_free = all(entry.default is not MISSING or entry.default_factory is not MISSING for entry in needed)
    return kind if is_free else None


def _source(kind: type[Any]) -> str:
    if not (event_types_of(kind) or hasattr(kind, "fold_into")):
        return ""
    try:
        return getsource(kind)
    except (OSError, TypeError):  # typed in at a prompt
        return ""
