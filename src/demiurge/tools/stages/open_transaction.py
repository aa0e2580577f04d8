"""Stage: opens a transaction, so that the call's changes to its session and resources can be rolled back."""

from __future__ import annotations

from demiurge.tools.execution.call import Call
from demiurge.tools.execution.changes import Changes, supports_rollback
from demiurge.tools.execution.ports import Ports

__all__ = ["open_transaction"]


def open_transaction(ports: Ports, call: Call) -> None:
    """Begins `call.changes` for the session and the resources that support a roll-back; does nothing if there are
    none."""
    context = call.context
    assert context is not None
    targets = ports.reversible
    if call.template is not None:
        targets = tuple(filter(supports_rollback, (context.session, *context.resources.entries.values())))
    if targets:
        call.changes = Changes()
        call.changes.watch(targets)
