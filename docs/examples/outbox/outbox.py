import time
from pathlib import Path

from demiurge import ToolEffect, ToolResult, tool


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send_email(to: str) -> ToolResult[None]:
    """Sends an e-mail: a line of outbox.txt."""
    with Path("outbox.txt").open("a") as outbox:
        outbox.write(f"{to}\n")
    time.sleep(30)  # the e-mail is out, and the program does not know it yet
    return ToolResult(f"Sent to {to}.")
