"""The operations of a backend, derived from the declarations in `calls`: roles, kinds, and their form as plain data.

Invariant: a role is asked for here and nowhere else. In the owner's process the calls of a caller pass through
`guarded`; a call from another process comes with its caller, and passes there too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError

from demiurge.bootstrap.backend.calls import Frames, KeepCalls, ReadCalls, RunCalls
from demiurge.errors import InvalidValue, UsageError
from demiurge.values.caller import Caller

__all__ = ["OPERATIONS", "Operation", "client", "guarded"]

Kind = Literal["now", "later", "stream"]


@dataclass(frozen=True)
class Operation:
    """One call: `group.name`. `kind`: `now` returns its result, `later` is awaited, `stream` yields frames."""

    group: str
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        return f"{self.group}.{self.function.__name__}"

    @cached_property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.function.__dict__["roles"])

    @cached_property
    def kind(self) -> Kind:
        if self._hints["return"] == Frames:
            return "stream"
        return "later" if inspect.iscoroutinefunction(self.function) else "now"

    def only_reads(self, args: Sequence[Any]) -> bool:
        """Returns whether the call changes nothing with these arguments, by position."""
        if self.group == "read" or "reads" in self.function.__dict__:
            return True
        return any(value for name, value in zip(self._signature.parameters, args, strict=True) if name == "dry_run")

    def require(self, caller: Caller) -> None:
        """Raises UsageError (`role_missing`) when the caller has none of the roles."""
        if not caller.has(*self.roles):
            wanted = " or ".join(dict.fromkeys((*self.roles, "user")))
            mine = ", ".join(caller.roles) or "no role"
            who = f"{caller.actor or 'Nobody'} ({mine})"
            raise UsageError(f"{who} may not call {self.name}: it takes the role {wanted}.", code="role_missing")

    def bound(self, *args: Any, **options: Any) -> list[Any]:
        """Returns the arguments of a call by position, defaults included. Raises TypeError as the call itself would."""
        given = self._signature.bind(*args, **options)
        given.apply_defaults()
        return list(given.arguments.values())

    def dump_arguments(self, args: Sequence[Any]) -> list[Any]:
        """Returns the arguments in the form that canonical CBOR can carry."""
        return [adapter.dump_python(value) for adapter, value in zip(self._parameters, args, strict=True)]

    def load_arguments(self, args: Sequence[Any]) -> list[Any]:
        """Returns the arguments from the form of `dump_arguments`. Nothing is converted: a text is neither a number nor
        a boolean. Raises InvalidValue (`bad_arguments`) for any other form."""
        if len(args) != len(self._parameters):
            raise InvalidValue(f"{self.name} takes {len(self._parameters)} arguments", code="bad_arguments")
        try:
            return [
                adapter.validate_python(value, strict=True)
                for adapter, value in zip(self._parameters, args, strict=True)
            ]
        except ValidationError as error:
            raise InvalidValue(f"{self.name} does not take these arguments", code="bad_arguments") from error

    def dump_result(self, value: Any) -> Any:
        """Returns the result in the form that canonical CBOR can carry."""
        return self._result.dump_python(value)

    def load_result(self, node: Any) -> Any:
        """Returns the result from the form of `dump_result`."""
        return self._result.validate_python(node)

    @cached_property
    def _signature(self) -> inspect.Signature:
        found = inspect.signature(self.function)
        return found.replace(parameters=list(found.parameters.values())[1:])

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        # `Only` refers to itself, and is checked by readers
        return get_type_hints(self.function, localns={"Only": Any}, include_extras=True)

    @cached_property
    def _parameters(self) -> list[TypeAdapter[Any]]:
        return [TypeAdapter(self._hints[name]) for name in self._signature.parameters]

    @cached_property
    def _result(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._hints["return"])


_GROUPS: Final = (("run", RunCalls), ("read", ReadCalls), ("keep", KeepCalls))

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for group, calls in _GROUPS
    for function in vars(calls).values()
    if "roles" in getattr(function, "__dict__", ())
    for operation in [Operation(group, function)]
}
"""Every operation by its name, e.g. `run.submit`."""


class _Calls:
    """Answers the calls of one group: each attribute is made by `make`, once."""

    def __init__(self, group: str, make: Callable[[Operation], Callable[..., Any]]) -> None:
        self._group, self._make = group, make

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = OPERATIONS.get(f"{self._group}.{name}")
        if operation is None:
            raise AttributeError(name)
        made = self._make(operation)
        setattr(self, name, made)
        return made


Wrap = Callable[[Operation, Callable[..., Any]], Callable[..., Any]]


def guarded(group: str, calls: object, caller: Caller, wrap: Wrap) -> Any:
    """Returns the calls of a group for this caller, each wrapped by `wrap`; those for which the caller lacks the role
    raise UsageError (`role_missing`)."""

    def make(operation: Operation) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(calls, operation.function.__name__)

        def refuse(*_args: Any, **_options: Any) -> Any:
            operation.require(caller)

        async def refuse_later(*_args: Any, **_options: Any) -> Any:
            operation.require(caller)

        if caller.has(*operation.roles):
            return wrap(operation, call)
        return refuse_later if operation.kind == "later" else refuse

    return _Calls(group, make)


def client(group: str, call: Callable[..., Any]) -> Any:
    """Returns the calls of one group, each made as `call(operation, *args)`, with the arguments by position."""

    def make(operation: Operation) -> Callable[..., Any]:
        return lambda *args, **options: call(operation, *operation.bound(*args, **options))

    return _Calls(group, make)
