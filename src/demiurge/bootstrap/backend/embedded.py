"""The backend of a world that this process owns, or only reads."""

from __future__ import annotations

from demiurge.bootstrap.backend.calls import KeepCalls, ReadCalls, RunCalls
from demiurge.bootstrap.backend.keeping import Keeping
from demiurge.bootstrap.backend.operations import guarded
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.reading import Reading
from demiurge.bootstrap.backend.running import Running
from demiurge.bootstrap.backend.socket import Gateway
from demiurge.values.caller import USER, Caller

__all__ = ["Embedded"]


class Embedded:
    """The calls of one caller on the owner in this process. `close` closes the owner too. `gateway` lets other
    processes connect; with None no process can."""

    def __init__(self, state: Owner, gateway: Gateway | None, caller: Caller = USER) -> None:
        self.state, self.caller = state, caller
        run: RunCalls = Running(state, caller)
        read: ReadCalls = Reading(state, caller)
        keep: KeepCalls = Keeping(state, caller)
        self.run: RunCalls = guarded("run", run, caller)
        self.read: ReadCalls = guarded("read", read, caller)
        self.keep: KeepCalls = guarded("keep", keep, caller)
        self._gateway = gateway
        state.serve = self.serve

    @property
    def owner(self) -> bool:
        return self.state.read_only is None

    @property
    def joined(self) -> bool:
        return False

    @property
    def read_only(self) -> str | None:
        return self.state.read_only

    def of(self, caller: Caller) -> Embedded:
        return Embedded(self.state, self._gateway, caller)

    async def serve(self) -> None:
        if self._gateway is not None and self.owner:
            await self._gateway.start(self)

    async def close(self) -> None:
        if self._gateway is not None:
            await self._gateway.close()
        await self.state.close()
