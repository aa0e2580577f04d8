"""`demiurge plan`: shows the steps of a world plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.defs import definitions
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import NotFound

__all__ = ["command"]


@click.group(cls=Group, name="plan")
def command() -> None:
    pass


@command.command(name="show", cls=Command)
@click.argument("name")
@running_options
def show(name: str, **running: Any) -> None:
    """Show what the world plan NAME (such as demiurge/chat_plan@1) does, step by step."""
    with opened(RunOptions(**running)) as (world, _):
        plans = {d["name"]: d for d in definitions(world.manifest()) if d["$kind"] == "defplan"}
    if name not in plans:
        raise NotFound(f"There is no plan {name}; there are {', '.join(plans) or 'none'}.", code="no_plan")
    output.result(plans[name], *_lines(plans[name]))


def _lines(plan: Mapping[str, Any]) -> Iterator[str]:
    yield f"{plan['name']}  started by {plan['input']}"
    edges = plan.get("edges", ())
    for step in plan["steps"]:
        after = [edge for edge in edges if edge["to"] == step["id"]]
        conditions = [f"{edge['from']}{_guard(edge)}" for edge in after]
        yield f"  {step['id']}: {_does(step)}" + (f"  (after {', '.join(conditions)})" if conditions else "")


def _does(step: Mapping[str, Any]) -> str:
    match step["op"]:
        case "emit_effect":
            return f"asks for {step['kind']} under {step['cap']}"
        case "await_receipt":
            return f"waits for the receipt of {_text(step['for'])}"
        case "await_event":
            where = f" where {_text(step['where'])}" if "where" in step else ""
            return f"waits for {step['event']}{where}"
        case "raise_event":
            return f"raises {step['event']}"
        case "assign":
            return f"sets {step['bind']['as']} to {_text(step['expr'])}"
        case "end":
            return f"ends with {_text(step['result'])}" if "result" in step else "ends"
        case other:
            return str(other)


def _guard(edge: Mapping[str, Any]) -> str:
    return "" if edge.get("when", True) is True else f" if {_text(edge['when'])}"


def _text(expression: Any) -> str:
    if isinstance(expression, Mapping) and set(expression) == {"ref"}:
        return str(expression["ref"])
    return json.dumps(expression, ensure_ascii=False, separators=(",", ":"))
