"""`demiurge cost`: what the answers of models cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from demiurge.bootstrap.cost import DAYS, cost_with_budgets, today
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.models.prices import has_list_prices
from demiurge.visible_text import visible_name

__all__ = ["COST_TABLES", "command", "cost_lines"]

COST_TABLES: Final = ("chat", "day", "model", "tool")

_SUMS: Final = ("answers", "unpriced", "prompt_tokens", "completion_tokens", "cost_usd", "known_usd")
_CALLS: Final = ("shared", "calls", "unpriced_calls", "reported_tokens", "reported_usd")
_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "chat": ("chat", "unit", "name", *_SUMS),
    "day": ("day", *_SUMS),
    "model": ("model", *_SUMS),
    "tool": ("tool", *_SUMS, *_CALLS),
}
"""The columns of a CSV, by its table."""

_FORMULA: Final = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\N{FULLWIDTH EQUALS SIGN}",
    "\N{FULLWIDTH PLUS SIGN}",
    "\N{FULLWIDTH HYPHEN-MINUS}",
    "\N{FULLWIDTH COMMERCIAL AT}",
)
"""The beginnings of a cell that spreadsheets take for a formula."""


@click.command(cls=Command, name="cost")
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="Only the answers in this chat.")
@click.option(
    "--days", type=click.IntRange(min=1), default=DAYS, show_default=True, help="The last N days, today included (UTC)."
)
@click.option("--by", type=click.Choice(COST_TABLES), help="Only this table.")
@click.option("--csv", "as_csv", is_flag=True, help="One table as CSV: that of --by, else the one by day.")
def command(chat_id: str | None, days: int, by: str | None, as_csv: bool) -> None:
    """Print what the answers of models cost in dollars, by chat, day, model and tool.

    A cost is unknown if the price of a model is not known. A sum with an unknown part is printed as "at least".

    The table by tool has the answers that were the first to read a result of the tool. An answer that read the results
    of several tools is in the row of each.
    """
    if as_csv and settings().json:
        raise click.UsageError("Choose --csv or --json: each prints one document on stdout.")
    with opened() as (world, portal):
        document = portal.run(cost_with_budgets(world.backend, today(), days, chat_id))
    if as_csv:
        output.write(output.plain(_csv(document, by or "day")).replace("\n", "\r\n"), end="")
        return
    output.result(document, *cost_lines(document, by, chat_id))


def cost_lines(document: Mapping[str, Any], by: str | None = None, chat_id: str | None = None) -> list[str]:
    """Returns the cost as lines: the sum, the budgets that near their end, and the tables; only the table `by` if it is
    named. `chat_id`: the chat that the document is about, None for the world."""
    total, tools = document["total"], document["tools"]
    days = f"{document['since']} to {document['until']} (UTC)"
    count = f"{total['answers']} answer{'s' * (total['answers'] != 1)}"
    is_unknown = total["answers"] and total["unpriced"] == total["answers"]
    cost = f"the cost of {count} is not known" if is_unknown else f"{_cost(total)} for {count}"
    lines = [f"{'' if chat_id is None else f'Chat {chat_id}, '}{days}: {cost}."]
    if total["unpriced"]:
        some = "" if is_unknown else f"The cost of {total['unpriced']} of them is not known. "
        lines.append(some + _why_unknown(document["by_model"]))
    if tools["reported_tokens"] or tools["reported_usd"] != "0":
        lines.append(f"Tools reported {_reported(tools)} of their own, which is in no sum here.")
    lines += [
        f"{use['chat'] if use['chat'] is not None else use['unit']}: {use['says']}" for use in document["budgets"]
    ]
    for key in COST_TABLES if by is None else (by,):
        rows = [_row(key, part) for part in document[f"by_{key}"]]
        if rows:
            more = {"tool": ("CALLS",), "chat": ("TITLE",)}.get(key, ())
            lines += ["", *output.table(rows, (key.upper(), *more, "ANSWERS", "TOKENS", "COST"))]
            lines += _notes(document["by_tool"]) if key == "tool" else ()
    return lines


def _why_unknown(by_model: Sequence[Mapping[str, Any]]) -> str:
    """Returns why no cost was recorded for some answers, with their models."""
    models = [part["model"] for part in by_model if part["unpriced"]]
    which = "this model at its address" if len(models) == 1 else "these models at their addresses"
    listed = f"no list price is known for {which}"
    if settings().url() is None and not has_list_prices():
        listed = "no list price is known without the extra `prices`: pip install 'demiurge-runtime[prices]'"
    return f"{', '.join(models)}: the provider reports no cost, and {listed}."


def _row(key: str, part: Mapping[str, Any]) -> tuple[str, ...]:
    name = part[key] if part[key] is not None else part["unit"] if key == "chat" else "(no tool)"
    more = (str(part["calls"]),) if key == "tool" else (visible_name(part["name"]),) if key == "chat" else ()
    tokens = f"{part['prompt_tokens']}+{part['completion_tokens']}"
    return str(name), *more, str(part["answers"]), tokens, _cost(part)


def _notes(by_tool: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns what a reader of the table by tool must know of it."""
    if not any(part["shared"] for part in by_tool):
        return []
    return ["Some answers read the results of several tools and are in several rows, which add up to more."]


def _cost(part: Mapping[str, Any]) -> str:
    if part["cost_usd"] is not None:
        return f"${part['cost_usd']}"
    return f"at least ${part['known_usd']}" if part["unpriced"] < part["answers"] else "unknown"


def _reported(tools: Mapping[str, Any]) -> str:
    at_least = "at least " if tools["unpriced_calls"] else ""
    return f"{tools['reported_tokens']} tokens and {at_least}${tools['reported_usd']}"


def _csv(document: Mapping[str, Any], key: str) -> str:
    """Returns a table as CSV with line feeds. An unknown cost is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS[key])
    for part in document[f"by_{key}"]:
        writer.writerow(_cell(part[column]) for column in _COLUMNS[key])
    return text.getvalue()


def _cell(value: str | int | None) -> str | int:
    """Returns a cell that a spreadsheet takes for text or a number, and never for a formula."""
    if value is None or isinstance(value, int):
        return "" if value is None else value
    return f"'{value}" if value.startswith(_FORMULA) else value
