"""The class `Tool`: a tool, written once, next to its handler.

Every mistake in a tool is found when it is made: in its name, its description, its handler's signature, a schema
outside the subset, an allowlisted field that does not exist, an example that does not fit. So the runner can rely on
every tool being complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeAlias, TypeVar, overload

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.direct_call import direct_context, direct_params
from demiurge.tools.authoring.function import plain_tool
from demiurge.tools.authoring.hidden_text import hidden_in
from demiurge.tools.authoring.named_types import named_type
from demiurge.tools.authoring.params import ParamsCodec, ResultCodec, params_names
from demiurge.tools.authoring.public_paths import missing_argument, missing_path
from demiurge.tools.authoring.schema import compile_schema
from demiurge.tools.authoring.signature import (
    UNKNOWN,
    ReturnMismatch,
    check_handler,
    check_parameters,
    is_async_callable,
    is_params_type,
    item_of,
    result_problem,
)
from demiurge.tools.authoring.texts import MAX_DESCRIPTION, MAX_DETAILS, docstring_problem, text_problem, tidy_text
from demiurge.tools.bound import BoundTool
from demiurge.tools.capabilities import AuthCapability
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import PromptValidationError, ToolErrorCode, ToolFailure, ToolValidationError
from demiurge.tools.ids import RESERVED_PREFIXES, is_authored_id, is_reserved
from demiurge.tools.ledger.idempotency import IdempotencyConfig
from demiurge.tools.redaction import Redaction
from demiurge.tools.spec import ToolSpec
from demiurge.values.article import with_article

__all__ = ["Tool", "ToolExample", "as_tool", "tool"]

ParamsT = TypeVar("ParamsT")
ResultT = TypeVar("ResultT")
_ToolT = TypeVar("_ToolT")
DirectContext: TypeAlias = ToolContext | Mapping[Any, Any] | None
"""The types of the `context` of `Tool.run_direct`."""


@dataclass(frozen=True)  # not slotted: it is subscripted and called
class ToolExample(Generic[ParamsT, ResultT]):
    """A representative call for documentation. `description`: 1 to 200 characters."""

    description: str
    input: ParamsT
    output: ResultT


@dataclass(frozen=True)
class _ToolOf(Generic[_ToolT]):
    """The value of `Tool[P, R]`: a constructor that knows both types before any check runs."""

    origin: Callable[..., _ToolT]
    args: tuple[Any, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> _ToolT:
        return self.origin(*args, params_type=self.args[0], result_type=self.args[1], **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the base for a subclass, which finds the types in its `__orig_bases__`."""
        return (self.origin,)

    def __or__(self, other: Any) -> Any:
        return self.origin | other

    __ror__ = __or__


@dataclass(frozen=True)  # not slotted: it is subscripted and called
class Tool(Generic[ParamsT, ResultT]):
    """`Tool[P, R](name=..., description=..., handler=...)`. P: dataclass, pydantic model or None. R: any type that
    pydantic can serialize.

    `name` `^[a-z0-9_-]{1,64}$`, without a reserved prefix; `description` 1 to 200 characters; `details` up to 2,000
    more, which a model reads after the description; `handler` `(params: P, *, context: ToolContext) ->
    ToolResult[R]`, `def` or `async def`. The default `effect` is `external_side_effect`;
    the default `redaction` shows the message only. `timeout`: seconds or timedelta. `capabilities`: the Protocols
    that the handler needs. `untrusted`: its results hold other people's text, such as a web page or a mail, and taint
    the run that reads them. Raises PromptValidationError."""

    name: str
    description: str
    handler: Callable[..., Any] | None
    examples: tuple[ToolExample[Any, Any], ...] = ()
    idempotency: IdempotencyConfig | None = None
    accepts_overrides: bool = True
    effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT
    redaction: Redaction = field(default_factory=Redaction.message_only)
    capabilities: tuple[Any, ...] = ()
    requires_connection: bool = False
    timeout: float | timedelta | None = None
    inline: bool = False
    reconcile: Callable[..., Any] | None = None
    details: str = field(default="", kw_only=True)
    untrusted: bool = field(default=False, kw_only=True)
    params_type: Any = field(default=UNKNOWN, kw_only=True, repr=False)
    result_type: Any = field(default=UNKNOWN, kw_only=True, repr=False)
    spec: ToolSpec = field(init=False, repr=False, compare=False)
    bound: BoundTool = field(init=False, repr=False, compare=False)

    may_use_reserved_prefixes: ClassVar[bool] = False
    """Only the class of the shipped core tools sets this."""

    _declared: ClassVar[tuple[Any, Any] | None] = None
    """The types of a subclass of `Tool[P, R]`."""

    works_through_capabilities: ClassVar[bool] = False
    """See `BoundTool`; only shipped tools are known to do so."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, item: Any) -> Any:
            if not isinstance(item, tuple) or len(item) != 2:
                raise TypeError("Tool takes two types: Tool[Params, Result]")
            item = tuple(None if named_type(kind) is type(None) else kind for kind in item)
            if not (item[0] is None or isinstance(item[0], type | TypeVar)):
                raise TypeError("Params must be a class, or None")
            if any(isinstance(kind, TypeVar) for kind in item):
                return super().__class_getitem__(item)
            return _ToolOf(cls, item)

    def __init_subclass__(cls, **options: Any) -> None:
        """Takes the types that `class T(Tool[P, R])` declares for all its tools."""
        super().__init_subclass__(**options)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if isinstance(base, _ToolOf):
                cls._declared = base.args

    def __post_init__(self) -> None:
        self._take_declared()
        self._check_texts()
        self._freeze("examples", _tuple(self.examples))
        self._check_options()
        self._freeze("capabilities", _tuple(self.capabilities))
        if AuthCapability in self.capabilities and not self.requires_connection:
            self._refuse("only a tool with requires_connection=True gets an AuthCapability", "capabilities")
        self._check_types()
        part = "effect"
        try:
            self._freeze("effect", ToolEffect(self.effect))
            part = "ResultT"
            results = ResultCodec(self.result_type)
            if results.problem:
                raise InvalidValue(results.problem)
            part = "schema"
            schema = compile_schema(self.params_type)
            if hidden := hidden_in(schema):
                raise InvalidValue("the schema has the invisible character {1} at {0}".format(*hidden))
            params = ParamsCodec(self.params_type, schema)
            texts = (self.name, self.description, schema)
            spec = ToolSpec(*texts, self.effect, self.redaction, details=self.details, untrusted=self.untrusted)
            self._freeze("spec", spec)
        except (InvalidValue, ValueError) as error:
            self._refuse(str(error), part)
        self._check_redaction()
        self._check_idempotency()
        self._check_examples(params, results)
        self._freeze("bound", self._bind(params, results))

    @staticmethod
    def wrap(function: Callable[..., Any], **options: Any) -> Tool[Any, Any]:
        """Makes a tool from a function: with its name, docstring and annotations, or with the fields of Tool in
        `options`. The docstring's first paragraph is the description, and the text after it the details; if
        `description` is given, the details are "" unless they are given too.

        The function may take `params` and `context`, take one dataclass or pydantic model, or plain parameters; a
        `context: ToolContext` parameter is optional. It may return a ToolResult or the bare value. Raises
        PromptValidationError."""
        try:
            parts = plain_tool(function)
        except (InvalidValue, ValueError) as error:
            raise PromptValidationError(str(error), placeholder="handler") from error
        name = options.get("name", parts.name)
        if not name:
            raise PromptValidationError(f"{function!r} has no name: pass name= and description=", placeholder="name")
        words = {} if "description" in options else {"description": parts.doc.summary, "details": parts.doc.details}
        for field_name, text in words.items():
            problem = None if field_name in options else docstring_problem(field_name, text)
            if problem:
                raise PromptValidationError(f"tool {name!r}: {problem}", placeholder=field_name)
        types = {"params_type": parts.params_type, "result_type": parts.result_type}
        fields: dict[str, Any] = {"name": name, **types, **words, **options}
        return Tool(handler=parts.handler, **fields)

    def run_direct(
        self, params: ParamsT | Mapping[str, Any] | None = None, /, *, context: DirectContext = None, **arguments: Any
    ) -> Any:
        """Calls the handler in a unit test, without a policy, a ledger or a runner. Returns its ToolResult; for an
        `async def` handler an awaitable of it.

        `params`: a value of the parameters' type, which is passed on unchanged. Or pass a mapping or keyword
        `arguments`, which are checked and converted as a model's arguments are. `context`: a ToolContext, or a
        mapping of resources by their type; left out, the handler gets one without prompt, session and resources.

        Whatever the handler raises reaches the caller. Raises ToolValidationError if the arguments do not fit the
        schema, TypeError for parameters of another type, ToolFailure (`unavailable`) for a tool without a handler."""
        call = self.handler if self.handler is not None else _no_handler
        value = direct_params(self.bound.parse, self.params_type, params, arguments)
        return call(value, context=direct_context(context))

    def _freeze(self, name: str, value: Any) -> None:
        """Sets a field while the tool is being made."""
        object.__setattr__(self, name, value)

    def _refuse(self, message: str, placeholder: str) -> NoReturn:
        kind = type(None) if self.params_type is None else self.params_type
        kind = kind if isinstance(kind, type) else None
        raise PromptValidationError(f"tool {self.name!r}: {message}", dataclass_type=kind, placeholder=placeholder)

    def _check_texts(self) -> None:
        if not is_authored_id(self.name):
            self._refuse("a name is 1 to 64 of a-z, 0-9, '_' and '-'", str(self.name))
        if is_reserved(self.name) and not self.may_use_reserved_prefixes:
            prefixes = ", ".join(f"{prefix}__" for prefix in RESERVED_PREFIXES)
            self._refuse(f"the prefixes {prefixes} are reserved", self.name)
        self._check_text("description", MAX_DESCRIPTION, f"put the rest into details=, of up to {MAX_DETAILS:,}")
        self._check_text("details", MAX_DETAILS, "keep what a model needs in order to call the tool")
        if not isinstance(self.redaction, Redaction):
            self._refuse("'redaction' must be a Redaction", "redaction")

    def _check_text(self, name: str, limit: int, advice: str) -> None:
        """Strips a text of the tool. Raises PromptValidationError if the text cannot be used."""
        given = getattr(self, name)
        if not isinstance(given, str):
            self._refuse(f"{name!r} must be text, not {type(given).__name__}", name)
        text = tidy_text(given)
        may_be_empty = name == "details"
        if problem := text_problem(repr(name), text, limit=limit, advice=advice, may_be_empty=may_be_empty):
            self._refuse(problem, name)
        self._freeze(name, text)

    def _take_declared(self) -> None:
        """Takes the types that the class declares. Raises PromptValidationError for other types."""
        for name, declared in zip(("params_type", "result_type"), self._declared or (), strict=False):
            if getattr(self, name) is UNKNOWN:
                self._freeze(name, declared)
            elif getattr(self, name) != declared:
                self._refuse(f"its class declares another type than {getattr(self, name)!r}", "type_arguments")

    def _check_types(self) -> None:
        if self.params_type is UNKNOWN or self.result_type is UNKNOWN:
            self._refuse("name its types: Tool[Params, Result](...)", "type_arguments")
        if not is_params_type(self.params_type):
            self._refuse("the parameters must be a dataclass, a pydantic model or None", "ParamsT")
        if problem := result_problem(self.result_type):
            self._refuse(problem, "ResultT")
        self._freeze("params_type", None if self.params_type is type(None) else self.params_type)
        self._freeze("result_type", None if named_type(self.result_type) is type(None) else self.result_type)
        if self.handler is not None:
            try:
                check_handler(self.handler, self.params_type, self.result_type)
            except ReturnMismatch as error:
                self._refuse(str(error), "return")
            except ValueError as error:
                self._refuse(str(error), "handler")
        if self.reconcile is not None:
            try:
                check_parameters(self.reconcile, self.params_type, role="reconcile")
            except ValueError as error:
                self._refuse(str(error), "reconcile")

    def _check_options(self) -> None:
        for name in ("accepts_overrides", "inline", "requires_connection", "untrusted"):
            if not isinstance(getattr(self, name), bool):
                self._refuse(f"{name!r} must be True or False", name)
        kinds: Any = self.capabilities
        if isinstance(kinds, str) or not isinstance(kinds, Iterable) or any(isinstance(kind, str) for kind in kinds):
            self._refuse("'capabilities' must be a tuple of types", "capabilities")

    def _check_redaction(self) -> None:
        if (missing := missing_path(self.result_type, self.redaction)) is not None:
            self._refuse(f"redaction names {missing!r}, which the result does not have", "redaction")
        if (missing := missing_argument(self.spec.input_schema, self.redaction)) is not None:
            self._refuse(f"redaction names the argument {missing!r}, which the tool does not take", "redaction")

    def _check_idempotency(self) -> None:
        config = self.idempotency
        if config is None:
            return
        if not isinstance(config, IdempotencyConfig):
            self._refuse("'idempotency' must be an IdempotencyConfig", "idempotency")
        unknown = [name for name in config.param_keys if name not in params_names(self.params_type)]
        if unknown:
            self._refuse(f"param_keys names {unknown[0]!r}, which the parameters do not have", "idempotency")

    def _check_examples(self, params: ParamsCodec, results: ResultCodec) -> None:
        for example in self.examples:
            if not isinstance(example, ToolExample):
                self._refuse("examples must be ToolExamples", "examples")
            words = example.description.strip() if isinstance(example.description, str) else ""
            what = "the description of an example"
            if problem := text_problem(what, words, limit=MAX_DESCRIPTION, advice="shorten it"):
                self._refuse(problem, "examples")
            expected = type(None) if self.params_type is None else self.params_type
            if type(example.input) is not expected:
                self._refuse(f"an example's input must be {expected.__name__}", "examples")
            if not _is_exactly(self.result_type, example.output):
                self._refuse("an example's output must be exactly of the result's type", "examples")
            try:
                params.parse(b"{}" if example.input is None else ResultCodec(expected).dump(example.input))
                results.dump(example.output)
            except ToolValidationError:
                self._refuse("an example does not fit the tool's types", "examples")

    def _bind(self, params: ParamsCodec, results: ResultCodec) -> BoundTool:
        handler = self.handler if self.handler is not None else _no_handler
        return BoundTool(
            spec=self.spec,
            parse=params.parse,
            call=lambda value, context: handler(value, context=context),
            dump=results.dump,
            load=results.load,
            is_async=is_async_callable(handler),
            inline=self.inline,
            timeout_ms=self._timeout_ms(),
            capabilities=self.capabilities,
            works_through_capabilities=self.works_through_capabilities,
            requires_connection=self.requires_connection,
            idempotency=self.idempotency,
            reconcile=self.reconcile,
            dump_params=params.dump,
            result_type=self.result_type,
            is_own_code=True,
        )

    def _timeout_ms(self) -> int | None:
        if self.timeout is None:
            return None
        seconds = self.timeout.total_seconds() if isinstance(self.timeout, timedelta) else self.timeout
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.001 <= seconds < 1e9:
            self._refuse("'timeout' must be seconds above 0, or a timedelta", "timeout")
        return round(seconds * 1000)


@overload
def tool(function: Callable[..., Any], /) -> Tool[Any, Any]: ...
@overload
def tool(**options: Any) -> Callable[[Callable[..., Any]], Tool[Any, Any]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """The decorator form of `Tool.wrap`: `@tool` or `@tool(effect=..., redaction=...)`."""
    if function is not None:
        return Tool.wrap(function, **options)
    return lambda wrapped: Tool.wrap(wrapped, **options)


def as_tool(entry: object) -> Tool[Any, Any]:
    """Returns a tool unchanged, and a plain function as `Tool.wrap` makes it a tool: with the effect level
    `external_side_effect`. Raises PromptValidationError for anything else."""
    if isinstance(entry, Tool):
        return entry
    if isinstance(entry, type) or not callable(entry):
        name = getattr(entry, "__name__", None) or type(entry).__name__
        raise PromptValidationError(f"tools are Tools or functions, not {name}", placeholder="tools")
    if not hasattr(entry, "__name__"):
        what = with_article(type(entry).__name__)
        message = f"{what} among the tools has no name: write Tool.wrap(it, name=..., description=...)"
        raise PromptValidationError(message, placeholder="tools")
    return Tool.wrap(entry)


def _no_handler(params: Any, *, context: ToolContext) -> Any:
    raise ToolFailure(ToolErrorCode.UNAVAILABLE)


def _tuple(value: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(value)


def _is_exactly(kind: Any, value: Any) -> bool:
    """Returns whether `value` is of exactly this dataclass or model, not a subclass, or a sequence of such items.
    The codec checks the rest."""
    item = item_of(kind)
    if item is not UNKNOWN:
        is_array = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_array and all(_is_exactly(item, each) for each in value)
    return kind is None or not is_params_type(kind) or type(value) is kind
