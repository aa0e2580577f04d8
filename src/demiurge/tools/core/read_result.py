"""`core__read_result`: the model reads a result that was too large for its message, or a text file of a result, in
pages. Offsets count characters, so a page never ends inside one. The text is private, its length and place are public.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import Field

from demiurge.tools.capabilities import GivenResults
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.tools.ids import READ_RESULT
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["MAX_PAGE", "ReadResult", "ResultPage", "read_result"]

PAGE: Final = 4_000
MAX_PAGE: Final = 20_000
_MAX_OFFSET: Final = 99_999_999

_ABOUT_THE_PAGE: Final = 160
"""The bytes of an answer that are kept free for the sentence about its page."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    ref: str = field(metadata={"description": "The address that the result gave: sha256: and 64 digits."})
    offset: Annotated[int, Field(ge=0, le=_MAX_OFFSET)] = field(
        default=0, metadata={"description": "First character of the page. Left out: the beginning."}
    )
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = field(
        default=PAGE, metadata={"description": "Characters of the page."}
    )


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of a result. `next_offset` is where the next page begins, None at the end; `total` is the length of the
    whole, in characters."""

    text: str
    next_offset: int | None
    total: int

    def render(self) -> str:
        return self.text


async def _read(params: ReadResult, *, context: ToolContext) -> ToolResult[ResultPage]:
    results = context.resources.get(GivenResults)
    if results is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    text = await results.text(params.ref)
    total, start = len(text), params.offset
    if start > total:
        raise ToolUserError(f"The result has {total} characters: read from an offset of at most {total}.")
    page = _fitting(text[start : start + params.limit], results.max_bytes)
    end = start + len(page)
    more = f"Read on from offset {end}." if end < total else "This is the end."
    message = f"Characters {start} to {end} of {total}. {more}"
    return ToolResult(message, ResultPage(page, end if end < total else None, total))


def _fitting(page: str, max_bytes: int | None) -> str:
    """Returns the beginning of a page that has room in an answer of `max_bytes` in UTF-8."""
    if max_bytes is None:
        return page
    room = max_bytes - _ABOUT_THE_PAGE
    fitting = page.encode()[: max(room, 0)].decode(errors="ignore")
    if page and not fitting:
        raise ToolUserError(f"The limit of {max_bytes} bytes for a result leaves no room for a page.")
    return fitting


read_result = CoreTool[ReadResult, ResultPage](
    name=READ_RESULT,
    description="Read a page of a result that was too long, or of a text file of a result, by its address.",
    handler=_read,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("next_offset", "total"),
    capabilities=(GivenResults,),
)
