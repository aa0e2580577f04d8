"""Stage: from here on, what the call changes in its session and resources can be taken back."""

from __future__ import annotations

from demiurge.tools.execution.call import Call
from demiurge.tools.execution.changes import Changes, can_go_back
from demiurge.tools.execution.ports import Ports

__all__ = ["open_transaction"]


def open_transaction(ports: Ports, call: Call) -> None:
    context = call.context
    assert context is not None
    things = ports.can_go_back
    if call.template is not None:
        things = tuple(filter(can_go_back, (context.session, *context.resources.entries.values())))
    if things:
        call.changes = Changes()
        call.changes.watch(things)
