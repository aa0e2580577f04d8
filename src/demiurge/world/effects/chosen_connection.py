"""`ChosenConnection`: the connection that one tool call may use, as it stands at this attempt.

The unit's choice names the connection. The connection itself, the grant that the call was admitted under and the same
grant in the manifest in force must all allow it. All of that is read when the call is about to run and again when its
credentials are opened, so a revocation that came while a person was asked counts. The receipt names what was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import Unavailable
from demiurge.tools.connections.access import ConnectionAccess
from demiurge.tools.connections.credentials import Credentials
from demiurge.tools.connections.lease import Lease
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.ids import canonical_id
from demiurge.values.clock import Clock
from demiurge.world.connection_tokens import ConnectionTokens
from demiurge.world.connections import ANY_TOOL, CHOICE, CONNECTION
from demiurge.world.effect import CellReading, EffectCall
from demiurge.world.effect_kinds.tool_call import allows_connection
from demiurge.world.manifest import Grant
from demiurge.world.unit import Unit

__all__ = ["ChosenConnection"]

_MS = 1_000_000


class ChosenConnection:
    """The connection of one call; made by `read`. `connection_id` is None if the call can have none: none is chosen, or
    the chosen one is revoked, expired, of another tenant or unknown. `access` is for the call's runner."""

    def __init__(self, call: EffectCall, credentials: ConnectionTokens, clock: Clock, fixed: str | None) -> None:
        self._call, self._credentials, self._clock, self._fixed = call, credentials, clock, fixed
        self._tool = canonical_id(call.intent.params["tool"])
        self._changed_ns = 0
        self.connection_id: str | None = None
        self.access = ConnectionAccess(self, clock, {})

    @classmethod
    async def read(
        cls, call: EffectCall, credentials: ConnectionTokens, clock: Clock, fixed: str | None = None
    ) -> ChosenConnection:
        """Returns the connection of `call`, as its unit's choice and the grants stand now. `fixed`: the connection of
        the call's tool, which counts in place of the choice."""
        found = cls(call, credentials, clock, fixed)
        await found._read()
        return found

    def changed_after(self, time_ns: int) -> bool:
        """Returns whether the unit's choice changed after `time_ns` (wall time)."""
        return self._changed_ns > time_ns

    def lease(self, connection_id: str, *, tenant: str, actor: str, wait_ms: int | None = None) -> Lease:
        """Returns the lease of a connection (`tools.connections.access.Lender`)."""
        return Lease(connection_id, self._opened)

    async def _opened(self) -> Credentials:
        """Returns the credentials. Raises Unavailable, NotFound, Damaged, and ToolFailure with the command for a person
        who has to log in again: then the call does not run."""
        state = await self._read()
        if state is None or self.connection_id is None or not self.access.permits(self.connection_id):
            raise Unavailable("The connection was revoked or changed.", code="connection_unavailable")
        try:
            credentials = await self._credentials.current(self.connection_id, state)
        except Unavailable as error:
            if error.code != "login_needed":
                raise
            raise ToolFailure(ToolErrorCode.CONNECTION_UNAVAILABLE, safe_message=error.message) from error
        ends_ms = credentials.expires_at_ms
        if ends_ms is not None and self._clock.now_ns() // _MS >= ends_ms:
            raise Unavailable("The credentials have expired.", code="connection_unavailable")
        self._call.injections.hide(credentials.access_token)
        self._call.connection = {**(self._call.connection or {}), "lent": True}
        return credentials

    async def _read(self) -> Mapping[str, Any] | None:
        """Reads choice and connection again. Returns the connection's state if the call may be lent it, else None."""
        choice = await self._cell(CHOICE, str(self._call.unit))
        chosen = choice.cell["chosen"] if choice.cell is not None else {}
        self._changed_ns = choice.cell["changed_at"] if choice.cell is not None and self._fixed is None else 0
        self.connection_id, wanted = None, self._fixed or chosen.get(self._tool, chosen.get(ANY_TOOL))
        self.access = ConnectionAccess(self, self._clock, {})
        if wanted is None:
            return None
        connection = await self._cell(CONNECTION, wanted)
        state = connection.cell
        self._note(wanted, state, [choice, connection])
        if state is None or state["revoked"] is not None or state["tenant"] != self._call.caller.tenant:
            return None
        if state["expires_at_ms"] is not None and self._clock.now_ns() // _MS >= state["expires_at_ms"]:
            return None
        self.connection_id = wanted
        if self._is_granted(wanted, state):
            self.access = ConnectionAccess(self, self._clock, {wanted: self._ends_ms(state)})
        return state

    async def _cell(self, module: str, key: str) -> CellReading:
        return await self._call.read_cell(Unit(module, key))

    def _grants(self) -> list[Grant | None]:
        """Returns the grant of the call, as it was when the call was admitted and as it is in force."""
        manifests = (self._call.manifest, self._call.services.manifest)
        cap_type = manifests[0].effects[self._call.intent.kind].cap_type
        found = [manifest.grants.get(self._call.intent.grant) for manifest in manifests]
        return [grant if grant is not None and grant.cap_type == cap_type else None for grant in found]

    def _is_granted(self, connection_id: str, state: Mapping[str, Any]) -> bool:
        tools, tool = state["tools"], self._tool
        if tools is not None and tool not in tools:
            return False
        return all(
            grant is not None and allows_connection(grant.params, tool, connection_id, state["provider"])
            for grant in self._grants()
        )

    def _ends_ms(self, state: Mapping[str, Any] | None) -> int | None:
        """Returns when the right to use the connection ends, in milliseconds since 1970; None if never."""
        ends_ns = [grant.expires_ns for grant in self._grants() if grant is not None]
        ends = [None if end is None else end // _MS for end in ends_ns]
        ends.append(state["expires_at_ms"] if state is not None else None)
        return min((end for end in ends if end is not None), default=None)

    def _note(self, connection_id: str, state: Mapping[str, Any] | None, readings: list[CellReading]) -> None:
        """Writes the receipt's entry: which connection, by which grants, for which caller, and the cells that were
        read."""
        tools = [state["tools"] if state is not None else None]
        tools += [grant.params.get("tools") for grant in self._grants() if grant is not None]
        limits = [set(listed) for listed in tools if listed is not None]
        self._call.connection = {
            "id": connection_id,
            "provider": state["provider"] if state is not None else None,
            "grants": {
                "tools": sorted(set.intersection(*limits)) if limits else None,
                "expires_at_ms": self._ends_ms(state),
            },
            "caller": self._call.caller.to_node(),
            "lent": False,
            "read": [reading.to_node() for reading in readings],
        }
