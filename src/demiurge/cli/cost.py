"""`demiurge cost`: what the answers of models cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from demiurge.bootstrap.cost import DAYS, cost_of_world
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.world import opened
from demiurge.values.clock import SystemClock

__all__ = ["command"]


@click.command(cls=Command, name="cost")
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="Only the answers in this chat.")
@click.option(
    "--days", type=click.IntRange(min=1), default=DAYS, show_default=True, help="The last N days, today included (UTC)."
)
def command(chat_id: str | None, days: int) -> None:
    """Print what the answers of models cost in dollars, by chat, day and model.

    A cost is unknown if the price of a model is not known. A sum with an unknown part is printed as "at least".
    """
    today = datetime.fromtimestamp(SystemClock().now_ns() / 1e9, UTC).date()
    with opened() as (world, _):
        document = cost_of_world(world.backend, today, days, chat_id)
    total = document["total"]
    lines = [f"{document['since']} to {document['until']} (UTC): {_cost(total)} for {total['answers']} answers."]
    if total["unpriced"]:
        lines.append(f"The cost of {total['unpriced']} of them is not known.")
    for name, key in (("CHAT", "chat"), ("DAY", "day"), ("MODEL", "model")):
        rows = [
            (
                str(part[key] if part[key] is not None else part["unit"]),
                str(part["answers"]),
                f"{part['prompt_tokens']}+{part['completion_tokens']}",
                _cost(part),
            )
            for part in document[f"by_{key}"]
        ]
        if rows:
            lines += ["", *output.table(rows, (name, "ANSWERS", "TOKENS", "COST"))]
    output.result(document, *lines)


def _cost(part: Mapping[str, Any]) -> str:
    if part["cost_usd"] is not None:
        return f"${part['cost_usd']}"
    return f"at least ${part['known_usd']}" if part["unpriced"] < part["answers"] else "unknown"
