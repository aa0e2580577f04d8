"""The backend of a world that this process owns, or only reads."""

from __future__ import annotations

from demiurge.bootstrap.backend.calls import Backend, KeepCalls, ReadCalls, RunCalls
from demiurge.bootstrap.backend.hand_over import HandOver
from demiurge.bootstrap.backend.keeping import Keeping
from demiurge.bootstrap.backend.operations import guarded
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.reading import Reading
from demiurge.bootstrap.backend.running import Running
from demiurge.bootstrap.backend.settling import finish_titles
from demiurge.bootstrap.backend.socket import Gateway
from demiurge.values.caller import USER, Caller

__all__ = ["Embedded"]


class Embedded:
    """The calls of one caller on the owner in this process. `close` closes the owner too. `gateway` lets other
    processes connect; with None no process can. After a hand-over every call goes to the successor."""

    def __init__(self, state: Owner, gateway: Gateway | None, hand_over: HandOver, caller: Caller = USER) -> None:
        self.state, self.caller = state, caller
        run: RunCalls = Running(state, caller)
        read: ReadCalls = Reading(state, caller)
        keep: KeepCalls = Keeping(state, caller)
        wrap = hand_over.through(caller)
        self.run: RunCalls = guarded("run", run, caller, wrap)
        self.read: ReadCalls = guarded("read", read, caller, wrap)
        self.keep: KeepCalls = guarded("keep", keep, caller, wrap)
        self._gateway, self._hand_over = gateway, hand_over
        state.serve, state.hand_over = self.serve, hand_over.run

    @property
    def successor(self) -> Backend | None:
        """The backend that answers the calls once the world was handed over; None before."""
        return self._hand_over.successor

    @property
    def owner(self) -> bool:
        return self.state.read_only is None if self.successor is None else self.successor.owner

    @property
    def joined(self) -> bool:
        return self.successor is not None and self.successor.joined

    @property
    def read_only(self) -> str | None:
        return self.state.read_only if self.successor is None else self.successor.read_only

    def of(self, caller: Caller) -> Embedded:
        return Embedded(self.state, self._gateway, self._hand_over, caller)

    async def serve(self) -> None:
        if self.successor is not None:
            await self.successor.serve()
        elif self._gateway is not None and self.owner:
            await self.state.begin_if_handed_over()
            await self._gateway.start(self)

    async def close(self) -> None:
        if self._gateway is not None:
            await self._gateway.close()
        if not await self._hand_over.close():
            await finish_titles(self.state.running)
            await self.state.close()
