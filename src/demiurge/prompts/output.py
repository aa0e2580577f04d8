"""The structured output of a prompt: a JSON Schema for the model, and a strict parser of its answer.

Nothing is repaired: no code fence is removed, no `"5"` becomes 5. An error message is made of declared names only,
so a loop may send it back to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Literal, TypeAlias, get_args, get_origin

from pydantic import BaseModel

from demiurge.errors import InvalidValue
from demiurge.prompts.errors import OutputParseError, PromptValidationError
from demiurge.tools.authoring.params import ParamsCodec
from demiurge.tools.authoring.schema import compile_schema
from demiurge.tools.errors import ToolValidationError
from demiurge.values import canonical_json

__all__ = ["OutputContainer", "StructuredOutput", "structured_output"]

OutputContainer: TypeAlias = Literal["object", "array"]


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """The form of an answer. `output_type`: the class of the answer, or of its items if `container` is `array`.
    `schema`: JSON Schema (draft 7) in the subset of a tool's parameters; it allows extra keys if `allow_extra_keys`,
    and the parser then drops them."""

    output_type: type
    container: OutputContainer
    allow_extra_keys: bool
    schema: Mapping[str, Any] = field(hash=False)
    codec: ParamsCodec = field(repr=False, compare=False)

    def parse(self, text: str | bytes) -> Any:
        """Returns the answer as a value of the type. Raises OutputParseError."""
        try:
            canonical_json.parse(text)
            value = self.codec.parse(text)
        except ToolValidationError as error:
            message = f"The answer is not of the form asked for: {'; '.join(error.fields)}."
            raise OutputParseError(message, dataclass_type=self.output_type, fields=error.fields) from error
        except InvalidValue as error:
            raise OutputParseError(f"The answer is not JSON. {error}", dataclass_type=self.output_type) from error
        return value

    def instructions(self) -> str:
        """Returns the text about the answer's form, which a prompt shows below its heading."""
        form = (
            "one JSON array, and nothing before or after it"
            if self.container == "array"
            else "one JSON object, and nothing before or after it"
        )
        schema = canonical_json.encode(dict(self.schema)).decode()
        return f"Your final answer is {form}: no prose, no code fence. It fits this JSON Schema:\n\n{schema}"


def structured_output(declared: Any, *, allow_extra_keys: bool) -> StructuredOutput:
    """Returns the form for a dataclass, a pydantic model, or `list[...]` of one. Raises PromptValidationError."""
    container: OutputContainer = "array" if get_origin(declared) in (list, tuple, Sequence) else "object"
    item = get_args(declared)[0] if container == "array" and _is_open_ended(declared) else declared
    if not (isinstance(item, type) and (is_dataclass(item) or issubclass(item, BaseModel))):
        message = f"an output must be a dataclass, a pydantic model, or a list of one, not {declared!r}"
        kind = item if isinstance(item, type) else None
        raise PromptValidationError(message, dataclass_type=kind, placeholder="OutputT")
    try:
        schema: dict[str, Any] = compile_schema(item)
        if allow_extra_keys:
            schema = _opened(schema)
        if container == "array":
            schema = {"items": schema, "type": "array"}
        codec = ParamsCodec(declared, schema, extra="ignore" if allow_extra_keys else "forbid")
    except InvalidValue as error:
        raise PromptValidationError(str(error), dataclass_type=item, placeholder="OutputT") from error
    return StructuredOutput(item, container, allow_extra_keys, schema, codec)


def _is_open_ended(kind: Any) -> bool:
    return get_origin(kind) is not tuple or get_args(kind)[1:] == (...,)


def _opened(schema: Any) -> Any:
    """Returns the schema with every object open to keys that it does not name."""
    if isinstance(schema, list):
        return [_opened(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _opened(entry) for name, entry in schema.items()}
    return {**inner, "additionalProperties": True} if inner.get("additionalProperties") is False else inner
