"""Four tools that send a mail, to be killed: they differ only in what they promise."""

from __future__ import annotations

import threading
from typing import Any

from demiurge import IdempotencyConfig, ToolContext, ToolEffect, ToolResult, tool
from demiurge.testing import Outside, ScriptedModel, call, fault_point

CALL = ("send_mail", {"to": "ann@example.com"})


def plain(outside: Outside) -> list[Any]:
    """A tool that promises nothing."""

    @tool
    def send_mail(to: str) -> ToolResult[None]:
        """Sends a mail."""
        fault_point("before_send")
        outside.did(f"mail to {to}")
        fault_point("after_send")
        return ToolResult("Sent.")

    return [send_mail]


def keyed(outside: Outside) -> list[Any]:
    """A tool whose equal calls are one."""

    @tool(idempotency=IdempotencyConfig(scope="mail"))
    def send_mail(to: str) -> ToolResult[None]:
        """Sends a mail."""
        outside.did(f"mail to {to}")
        return ToolResult("Sent.")

    return [send_mail]


def reconciled(outside: Outside) -> list[Any]:
    """A tool that can find out whether the mail was sent."""

    def was_sent(params: Any, *, context: ToolContext) -> ToolResult[None]:
        sent = f"mail to {params.to}" in outside.done()
        return ToolResult("It had been sent." if sent else "It was not sent.", success=sent)

    @tool(idempotency=IdempotencyConfig(scope="mail"), reconcile=was_sent)
    def send_mail(to: str) -> ToolResult[None]:
        """Sends a mail."""
        outside.did(f"mail to {to}")
        return ToolResult("Sent.")

    return [send_mail]


def reading(outside: Outside) -> list[Any]:
    """A tool that only looks."""

    @tool(effect=ToolEffect.READ_ONLY)
    def send_mail(to: str) -> ToolResult[None]:
        """Looks for the mails to an address."""
        outside.did(f"looked for {to}")
        return ToolResult("None.")

    return [send_mail]


def in_chat(outside: Outside) -> dict[str, Any]:
    """Returns the tool of `plain`, and a scripted model that calls it in a chat."""
    model = ScriptedModel([call("send_mail", to="ann@example.com"), "I have written to Ann."], by_history=True)
    return {"tools": plain(outside), "model": model}


def breaks(outside: Outside) -> list[Any]:
    """Raises an error, so that there are no tools to kill."""
    raise RuntimeError("no mail server")


def breaks_after_a_kill(outside: Outside) -> list[Any]:
    """Returns the tool of `plain` until a mail was sent; after that, raises an error."""
    if outside.done():
        raise RuntimeError("the mail server is gone")
    return plain(outside)


def waits(for_what: str) -> None:
    """Never ends."""
    threading.Event().wait()


def leaves(status: int) -> int:
    """Ends at once."""
    print("said on stdout")
    return status
