"""How a `World` is opened and closed: by `async with`, or by `await` in a notebook.

A cell of a notebook that opens a world may run again. So a world that is awaited takes the place of the one that this
process opened with `await` in the same folder before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Self

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.opening import Opening
from demiurge.errors import Conflict

__all__ = ["WorldLifetime"]

_AWAITED: Final[dict[str, WorldLifetime]] = {}
"""The worlds that this process opened with `await` and did not close, by their folders."""


class WorldLifetime:
    """The part of `World` that opens and closes it."""

    opening: Opening
    backend: Backend

    def __init__(self, backend: Backend, opening: Opening) -> None:
        self.backend, self.opening = backend, opening

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuses the use of a world that is not open before it is awaited."""
            if name != "backend":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            why = f"The world in {self.opening.options.folder} is open in this process: close it first with "
            raise Conflict(f"{why}`await world.close()`.", code="owned")

    @classmethod
    def of_opening(cls, opening: Opening) -> Self:
        """Returns a world that is open, but for `Opening.finish`. If this process opened the folder with `await`
        before, the world is open once it is awaited, in the place of the earlier one. Raises as `World.open`."""
        if _folder(opening) not in _AWAITED or opening.options.read_only:
            return cls(opening.backend(), opening)
        world = cls.__new__(cls)
        world.opening = opening
        return world

    def __await__(self) -> Generator[Any, None, Self]:
        """Opens the world, as `async with` does. It stays open until `close`, or until the process ends. A world that
        this process opened with `await` in the same folder before is closed first."""
        return self._awaited().__await__()

    async def _awaited(self) -> Self:
        folder = _folder(self.opening)
        earlier = _AWAITED.get(folder)
        if earlier is self:
            return self
        if earlier is not None:
            await earlier.close()
        if "backend" not in self.__dict__:
            type(self).__init__(self, self.opening.backend(), self.opening)
        _AWAITED[folder] = await self.__aenter__()
        return self

    async def __aenter__(self) -> Self:
        try:
            await self.opening.finish(self.backend)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the world. The next process that opens it resumes the unfinished work."""
        folder = _folder(self.opening)
        if _AWAITED.get(folder) is self:
            del _AWAITED[folder]
        await self.backend.close()


def _folder(opening: Opening) -> str:
    return str(opening.options.folder.resolve())
