"""The outcome of an event: it goes on, waits for a person, is over, was refused, or failed."""

from __future__ import annotations

import asyncio
from typing import Any

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.failure import consequences, failure, refusal
from demiurge.bootstrap.journal import Journal
from demiurge.errors import NotFound
from demiurge.values.refs import ref_from_digest
from demiurge.world.history.trace import outcome, trace
from demiurge.world.host import Accepted
from demiurge.world.routing import event_digest
from demiurge.world.unit import Unit

__all__ = ["event_outcome"]


async def event_outcome(backend: Backend, unit: str, seq: int) -> dict[str, Any]:
    """Returns `{unit, seq, event_hash, state, code, message}` of the event that is record `seq` of a unit. `state` is
    `running`, `waiting` (for a person), `done`, `refused` (its unit did not take it) or `failed`. Raises NotFound,
    InvalidValue (no such unit name)."""
    name = str(Unit.parse(unit))
    root = await asyncio.to_thread(lambda: next(Journal(backend).read(name, seq), None))
    if root is None or root.unit_seq != seq or root.kind != "event" or not root.is_ingress:
        raise NotFound(f"Record {seq} of {name} is no event that came in.", code="no_event")
    digest = event_digest(root.body["schema"], root.body["value"], Unit.parse(name).key)
    accepted = Accepted(name, seq, ref_from_digest(digest))
    start = root.position or 0
    tree = await asyncio.to_thread(lambda: trace(consequences(Journal(backend).read(from_seq=start), (name, seq))))
    found, failed, refused = outcome(tree), await failure(backend, accepted), await refusal(backend, accepted)
    if refused is not None and found.state in ("done", "failed"):
        return {**accepted._asdict(), "state": "refused", "code": refused.code, "message": refused.message}
    state = "failed" if failed is not None and found.state == "done" else found.state
    code, message = failed if failed is not None and state == "failed" else (None, None)
    return {**accepted._asdict(), "state": state, "code": code, "message": message}
