"""The built pages of the web shell: `shell/` is their source, `make shell` builds them.

Paths of the shell itself, such as `/chats/c1`, are answered with its one page. A path below `/api`, `/login` or
`/assets` never is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response
from starlette.convertors import Convertor, register_url_convertor

from demiurge.server.errors import Refused

__all__ = ["PAGES", "router"]

PAGES: Final = Path(__file__).parent.parent / "pages"

IMMUTABLE: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class _ShellPath(Convertor[str]):
    """A path of the shell: any that is not below a path of the server."""

    regex = r"(?!(?:api|login|assets)(?:/|$)).*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("shell", _ShellPath())
router = APIRouter(include_in_schema=False)


@router.get("/assets/{name}")
@router.head("/assets/{name}")
async def asset(name: str) -> Response:
    """Returns a built file. Its name has a hash of what is in it, so a browser keeps it."""
    found = {path.name: path for path in (PAGES / "assets").iterdir()}.get(name)
    if found is None:
        raise Refused(404, "no_path", "There is no such file; load the page again.")
    media_type = _TYPES.get(found.suffix, "application/octet-stream")
    return FileResponse(found, media_type=media_type, headers={"cache-control": IMMUTABLE})


@router.get("/{_:shell}")
@router.head("/{_:shell}")
async def page() -> Response:
    """Returns the page of the shell, which reads its own path."""
    return FileResponse(PAGES / "index.html", media_type="text/html", headers={"cache-control": "no-cache"})
