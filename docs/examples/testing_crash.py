from typing import Any

from demiurge import IdempotencyConfig, ToolContext, ToolResult, tool
from demiurge.testing import Outside, crash_points, fault_point


def plain(outside: Outside) -> list[Any]:
    @tool
    def send_mail(to: str) -> ToolResult[None]:
        """Sends a mail."""
        outside.did(f"mail to {to}")  # in place of a mail server
        fault_point("before_return")
        return ToolResult("Sent.")

    return [send_mail]


def with_key(outside: Outside) -> list[Any]:
    @tool(idempotency=IdempotencyConfig(scope="mail"))
    def send_mail(to: str) -> ToolResult[None]:
        """Sends a mail."""
        outside.did(f"mail to {to}")
        return ToolResult("Sent.")

    return [send_mail]


def with_reconcile(outside: Outside) -> list[Any]:
    def was_sent(params: Any, *, context: ToolContext) -> ToolResult[None]:
        sent = f"mail to {params.to}" in outside.done()
        return ToolResult("It had been sent." if sent else "It was not sent.", success=sent)

    @tool(idempotency=IdempotencyConfig(scope="mail"), reconcile=was_sent)
    def send_mail(to: str) -> ToolResult[None]:
        """Sends a mail."""
        outside.did(f"mail to {to}")
        return ToolResult("Sent.")

    return [send_mail]


def read_only(outside: Outside) -> list[Any]:
    @tool(effect="read_only")
    def send_mail(to: str) -> ToolResult[None]:
        """Looks for the mails to an address."""
        outside.did(f"looked for {to}")
        return ToolResult("None.")

    return [send_mail]


CALL = ("send_mail", {"to": "ann"})

if __name__ == "__main__":
    report = crash_points(plain, call=CALL, points=("effect.*", "mark.*"))
    print(report)
    report.assert_never_doubled()
    report.assert_never_lost()
    for build in (with_key, with_reconcile, read_only):
        report = crash_points(build, call=CALL, points=("mark.outside_effect",))
        print(f"{build.__name__}: {report.counts}")
        report.assert_never_doubled()
