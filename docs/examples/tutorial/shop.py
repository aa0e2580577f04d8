import os
import smtplib
import time
from email.message import EmailMessage

from demiurge import ToolEffect, ToolResult, tool

STOCK = {"bolt": 120, "nut": 80}


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> ToolResult[int]:
    """Count the pieces of a part that are in stock."""
    return ToolResult(message=f"{STOCK.get(part, 0)} pieces of {part}", value=STOCK.get(part, 0))


@tool
def send_email(to: str, subject: str, text: str) -> ToolResult[None]:
    """Send an e-mail to a supplier."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "shop@example.com", to, subject
    message.set_content(text)
    with smtplib.SMTP("127.0.0.1", int(os.environ.get("MAIL_PORT", "2525"))) as server:
        server.send_message(message)
    time.sleep(float(os.environ.get("PAUSE", "0")))  # for the crash of this tutorial
    return ToolResult(message=f"Sent to {to}.")
