"""Idempotency keys: which calls count as equal.

Two calls are equal if their keys are equal, so a key must keep different calls apart. It is made from the parameters
as their own type writes them, with defaults filled in, and never from a `repr` or from text that hides a value (a
secret is written as asterisks). Parameters that their type cannot write and read back unchanged are refused here;
the runner then uses the arguments as they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, NoReturn, cast

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.params import ParamsDump, has_params_names
from demiurge.tools.errors import PromptValidationError, ToolValidationError
from demiurge.tools.execution.portable import MAX_INTEGER
from demiurge.values import canonical_json
from demiurge.values.article import with_article

__all__ = [
    "DEFAULT_TTL",
    "DumpedParams",
    "IdempotencyConfig",
    "IdempotencyStrategy",
    "check_ttl",
    "compute_idempotency_key",
    "compute_params_hash",
    "hash_json",
    "make_key",
    "ttl_ns",
]

DEFAULT_TTL = timedelta(hours=24)
_MICROSECOND = timedelta(microseconds=1)
_MAX_TTL = timedelta(days=36_525)


class IdempotencyStrategy(StrEnum):
    """The source of a key: all parameters, some of them, or the result of a function; with `none` there is no key."""

    AUTO = "auto"
    PARAMS = "params"
    CUSTOM = "custom"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class IdempotencyConfig:
    """How equal calls of a tool are recognized, and for how long.

    `param_keys`: names of fields, for `params` only. `key_fn(params) -> str`: for `custom` only. `ttl`: above 0 and
    at most 100 years; None: entries never expire; `ttl_ns` is the same in nanoseconds. `scope`: text without ':'
    before the key; "session" also keeps sessions (or runs, if there is no session) apart. Raises
    PromptValidationError, a ValueError."""

    strategy: IdempotencyStrategy | str = IdempotencyStrategy.AUTO
    param_keys: tuple[str, ...] = ()
    key_fn: Callable[[Any], str] | None = None
    ttl: timedelta | None = DEFAULT_TTL
    scope: str = "session"
    ttl_ns: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "strategy", IdempotencyStrategy(self.strategy))
        except ValueError:
            _refuse(f"a strategy is one of {', '.join(IdempotencyStrategy)}, not {self.strategy!r}")
        if not isinstance(self.param_keys, list | tuple) or not all(
            isinstance(name, str) and name for name in self.param_keys
        ):
            _refuse("'param_keys' is a tuple of names of fields")
        object.__setattr__(self, "param_keys", tuple(self.param_keys))
        self._check_strategy()
        try:
            check_ttl(self.ttl)
        except InvalidValue as error:
            _refuse(error.message)
        object.__setattr__(self, "ttl_ns", ttl_ns(self.ttl))
        if not isinstance(self.scope, str) or ":" in self.scope:
            _refuse("'scope' is text without ':'")
        object.__setattr__(self, "scope", str.__str__(self.scope))

    def _check_strategy(self) -> None:
        if self.strategy is IdempotencyStrategy.PARAMS and not self.param_keys:
            _refuse("strategy 'params' requires param_keys")
        if self.strategy is not IdempotencyStrategy.PARAMS and self.param_keys:
            _refuse(f"strategy '{self.strategy}' takes no param_keys")
        if self.strategy is IdempotencyStrategy.CUSTOM and not callable(self.key_fn):
            _refuse("strategy 'custom' requires key_fn")
        if self.strategy is not IdempotencyStrategy.CUSTOM and self.key_fn is not None:
            _refuse(f"strategy '{self.strategy}' takes no key_fn")


def check_ttl(ttl: object) -> None:
    """Raises InvalidValue unless `ttl` is None or a timedelta above 0 and of at most 100 years."""
    if ttl is not None and not (isinstance(ttl, timedelta) and timedelta() < ttl <= _MAX_TTL):
        raise InvalidValue("'ttl' is a timedelta above 0 and of at most 100 years, or None for ever")


def ttl_ns(ttl: timedelta | None) -> int | None:
    """Returns the TTL in nanoseconds; None if entries never expire."""
    return None if ttl is None else ttl // _MICROSECOND * 1000


def _refuse(message: str) -> NoReturn:
    raise PromptValidationError(f"idempotency: {message}", placeholder="idempotency")


class DumpedParams:
    """Parameters as JSON, to be hashed. `whole`: `tree` is complete. `sent`: the arguments as JSON, which are hashed
    instead if `tree` is incomplete; without them that raises InvalidValue."""

    def __init__(self, tree: Any, whole: bool = True, sent: Mapping[str, Any] | None = None) -> None:
        self._tree, self._whole, self._sent = tree, whole, sent
        self._hash: str | None = None

    def hash(self) -> str:
        """Returns the hash of all parameters. Raises InvalidValue."""
        if self._hash is None:
            self._hash = hash_json(self._tree if self._whole else self._sent_arguments())
        return self._hash

    def hash_of(self, names: tuple[str, ...]) -> str:
        """Returns the hash of the fields with these names. Raises InvalidValue."""
        if isinstance(self._tree, Mapping) and set(names) <= set(self._tree):
            return hash_json({name: self._tree[name] for name in names})
        if self._whole and self._sent is None:
            missing = next(name for name in names if not isinstance(self._tree, Mapping) or name not in self._tree)
            raise InvalidValue(f"the parameters have no {missing!r}, which the key is made of")
        return hash_json(self._sent_arguments())

    def _sent_arguments(self) -> Any:
        if self._sent is None:
            raise InvalidValue("the type of the parameters can't read back what it writes, so they have no key")
        return {"arguments": self._sent}


def compute_params_hash(params: Any) -> str:
    """Returns 64 hex digits: SHA-256 of the parameters as canonical JSON, the same in every process.

    `params`: a dataclass, a pydantic model (extras included), a mapping with text as keys and JSON as values, or
    None. Raises InvalidValue for anything else, also a `RootModel`, and for values that their type cannot write and
    read back unchanged."""
    return _dumped(params).hash()


def compute_idempotency_key(*, tool_name: str, params: Any, config: IdempotencyConfig) -> str | None:
    """Returns `scope:tool:hash`, or `scope:` and the result of `key_fn`; None for strategy `none`. An empty scope
    adds no prefix. Raises InvalidValue."""
    return make_key(tool_name, params, config, lambda: _dumped(params))


def make_key(tool_name: str, params: Any, config: IdempotencyConfig, dump: Callable[[], DumpedParams]) -> str | None:
    """Does the same as `compute_idempotency_key`; `dump` is called only if a hash is needed."""
    match config.strategy:
        case IdempotencyStrategy.AUTO:
            key = f"{tool_name}:{dump().hash()}"
        case IdempotencyStrategy.PARAMS:
            key = f"{tool_name}:{dump().hash_of(config.param_keys)}"
        case IdempotencyStrategy.CUSTOM:
            assert config.key_fn is not None
            key = config.key_fn(params)
            if not isinstance(key, str) or not key:
                raise InvalidValue("a key_fn must return text that is not empty")
            key = str.__str__(key)
        case _:
            return None
    return f"{config.scope}:{key}" if config.scope else key


def hash_json(tree: Any) -> str:
    """Returns the SHA-256 of the RFC 8785 form, in hex. Raises InvalidValue for data that is not JSON."""
    try:
        text = canonical_json.encode(tree)
    except InvalidValue:
        try:
            text = b"spelled" + canonical_json.encode(_spelled(tree))
        except InvalidValue as error:
            raise InvalidValue(_first_fault(tree, "") or error.message, code=error.code) from None
    return sha256(text).hexdigest()


def _first_fault(tree: Any, place: str) -> str | None:
    """Says what in `tree` is not JSON, where it is, and what to write instead; None if nothing is found."""
    at = f" at {place}" if place else ""
    if isinstance(tree, Mapping):
        for name, item in tree.items():
            if not isinstance(name, str):
                what = with_article(type(name).__name__)
                return f"the parameters have a key{at} that is {what}: keys are text, so write it as text"
            if fault := _first_fault(item, f"{place}.{name}" if place else name):
                return fault
        return None
    if isinstance(tree, list | tuple):
        found = (_first_fault(item, f"{place}[{index}]") for index, item in enumerate(tree))
        return next(filter(None, found), None)
    try:
        canonical_json.encode(_spelled(tree))
    except InvalidValue:
        held = "text" if isinstance(tree, str) else with_article(type(tree).__name__)
        return f"the parameters hold {held}{at} that JSON can't hold: write {_instead_of(tree)}"
    return None


def _instead_of(value: Any) -> str:
    if has_params_names(value):
        return "it as a mapping, or pass it as the parameters themselves"
    if isinstance(value, str):
        return "text without lone surrogates"
    return "a finite number" if isinstance(value, float) else "it as JSON, such as text"


def _spelled(tree: Any) -> Any:
    """Returns `tree` with integers that RFC 8785 cannot write as text, in objects that no other value looks like."""
    if isinstance(tree, Mapping):
        return {f".{name}" if isinstance(name, str) else name: _spelled(item) for name, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [_spelled(item) for item in tree]
    if type(tree) is int and not -MAX_INTEGER <= tree <= MAX_INTEGER:
        return {"integer": str(tree)}
    return tree


def _dumped(params: Any) -> DumpedParams:
    if params is None:
        return DumpedParams(None)
    if not has_params_names(params):
        if isinstance(params, Mapping):
            return DumpedParams(_plain_mapping(params))
        message = "parameters are a dataclass, a pydantic model, a mapping with text as keys, or None"
        raise InvalidValue(f"{message}; {with_article(type(params).__name__)} has no names to tell calls apart by")
    try:
        return DumpedParams(*_dump_of(cast("Hashable", type(params)))(params))
    except ToolValidationError as error:
        raise InvalidValue(f"{type(params).__name__} can't be written as JSON") from error


def _plain_mapping(params: Mapping[Any, Any]) -> Any:
    try:
        return _plain(params)
    except RecursionError:
        raise InvalidValue("the parameters are nested too deep, or contain themselves") from None


def _plain(tree: Any) -> Any:
    """Returns `tree` with every mapping as a dict."""
    if isinstance(tree, Mapping):
        return {name: _plain(item) for name, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain(item) for item in tree]
    return tree


@lru_cache(maxsize=512)
def _dump_of(kind: Hashable) -> ParamsDump:
    return ParamsDump(kind)
