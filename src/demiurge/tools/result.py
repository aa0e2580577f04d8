"""The result that a handler returns, and its text for the model.

The model's text is the message, a blank line and the rendered value; a value marked `exclude_value_from_context` is
left out of the text. That flag saves tokens; it is not a security boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from pydantic_core import from_json, to_json

from demiurge.tools.execution.interrupt import is_from_outside
from demiurge.tools.parts import ResultPart
from demiurge.values.refs import ref_of

__all__ = ["ToolRenderableResult", "ToolResult", "join_text", "plain_text", "render_value"]

ValueT = TypeVar("ValueT")


@runtime_checkable
class ToolRenderableResult(Protocol):
    """A value that renders its own text for the model."""

    def render(self) -> str: ...


@dataclass(frozen=True)  # not slotted: subscripted and called, which frozen and slotted together can't before 3.13
class ToolResult(Generic[ValueT]):
    """The result of a call. `message`: text for the model. `value`: typed payload or None. `success=False` is a
    failure that the handler reports by itself: the model gets its message, others only if the redaction shows
    messages. `parts`: images, sounds and files beside the value (`tools.parts`); a failure has none. `verbatim`: the
    answer of a foreign source in its own form, as JSON; private, for whoever hands the answer on unchanged."""

    message: str
    value: ValueT | None = None
    success: bool = True
    exclude_value_from_context: bool = False
    parts: Sequence[ResultPart] = ()
    verbatim: bytes | None = field(default=None, repr=False)

    def render(self) -> str:
        """Returns the value as text; "" for None."""
        return render_value(self.value)


def render_value(value: object, encoded: bytes | None = None) -> str:
    """Returns the text of a value for the model: the value's own `render()`, text unchanged, everything else as
    compact JSON.

    Items of a list that render themselves are joined by blank lines, or to a JSON array if each reads as JSON.
    Inside any other value, `render()` is not used. `encoded` is the value's JSON if the caller has it already. A
    `render()` that raises, or returns text that UTF-8 cannot encode, is ignored."""
    if value is None:
        return ""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, bytes | bytearray):
        return _text_of_bytes(value)
    own = _rendered(value)
    if own is not None:
        return own
    if isinstance(value, list | tuple) and any(hasattr(type(item), "render") for item in value):
        parts = [render_value(item) for item in value]
        return f"[{','.join(parts)}]" if all(map(_is_json, parts)) else "\n\n".join(parts)
    if encoded is not None:
        return encoded.decode()
    try:
        return to_json(value, fallback=str).decode()
    except ValueError:  # JSON cannot hold the value: bytes that are not text, a value that contains itself
        return str(value).encode(errors="replace").decode()


def _text_of_bytes(value: bytes | bytearray) -> str:
    """Returns bytes decoded as UTF-8; if that fails, their size and digest."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"{len(value)} bytes that are not text, {ref_of(bytes(value))}"


def _rendered(value: object) -> str | None:
    render = getattr(type(value), "render", None)
    if render is None:
        return None
    try:
        return plain_text(str(render(value)))
    except BaseException as error:  # a `render()` that fails must not lose the result
        if is_from_outside(error):
            raise
        return None


def _is_json(text: str) -> bool:
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def plain_text(text: str) -> str:
    """Returns `text` as a plain `str` that UTF-8 can encode. Raises TypeError, UnicodeEncodeError."""
    if type(text) is str and text.isascii():
        return text
    return str.encode(text).decode()


def join_text(message: str, rendering: str) -> str:
    """Returns message and rendering with a blank line between them, or the one that is not empty."""
    return f"{message}\n\n{rendering}" if message and rendering else message or rendering
