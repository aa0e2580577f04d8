"""A client for the scenarios `client` of the protocol's conformance suite, made of the code that worlds use.

The scenarios `auth/*` are those of `conformance_login`. In the others it lists the tools of a server and calls each,
and stands for a person who accepts each question with its default values. Arguments are sent as the suite gives them: a
runner would refuse those that do not fit the schema. With node 22 or newer, in a folder of its own:

    npm install @modelcontextprotocol/conformance@0.2.0-alpha.12
    node node_modules/.bin/conformance client --requirements 2026-07-28 \\
        --command "env PYTHONPATH=. python -m tests.mcp.conformance_client"
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from demiurge.errors import DemiurgeError
from demiurge.mcp import McpClients, ServerSettings, ToolDefinition
from demiurge.tools import ToolContext, ToolEffect
from demiurge.tools.input_required import Answer, InputRequired, Resumed

SETTINGS = ServerSettings("conformance", "http", url=sys.argv[-1])
MOST_LEGS = 10
ECHO = "json_schema_echo"
EXAMPLES: Mapping[str, Any] = {
    "string": "test",
    "number": 5,
    "integer": 5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def example(schema: Mapping[str, Any]) -> Any:
    """Returns a value of the schema's type."""
    for named in ("const", "default"):
        if named in schema:
            return schema[named]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: example(field) for name, field in schema.get("properties", {}).items()}
    return EXAMPLES[kind if isinstance(kind, str) else kind[0]]


def answers_to(asked: InputRequired) -> dict[str, Answer]:
    """Accepts each question with the default values of its form."""
    found = {}
    for question in asked.questions:
        fields = (question.schema or {}).get("properties", {})
        content = {name: field["default"] for name, field in fields.items() if "default" in field}
        required = {name: example(fields[name]) for name in (question.schema or {}).get("required", ())}
        found[question.key] = Answer("accept", {**required, **content})
    return found


async def call(clients: McpClients, tool: ToolDefinition, arguments: dict[str, Any]) -> None:
    """Calls a tool to its end, and prints what came of it."""
    try:
        context = ToolContext()
        for _ in range(MOST_LEGS):
            result = await clients.call(SETTINGS, tool, arguments, context, ToolEffect.READ_ONLY)
            if not isinstance(result, InputRequired):
                print(tool.name, result.message[:200], file=sys.stderr)
                return
            context = ToolContext(resumed=Resumed(result.state, answers_to(result)))
    except DemiurgeError as error:
        print(tool.name, error.code, error.message, file=sys.stderr)


async def main() -> None:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    clients = McpClients(stop_s=1)
    try:
        listing = await clients.list_tools(SETTINGS)
        wanted = given.get("toolCalls")
        if wanted:
            for one in wanted:
                tool = listing.find(one["name"])
                if tool is not None:
                    await call(clients, tool, one.get("arguments") or {})
            return
        for tool in listing.definitions:
            arguments = example(tool.input_schema)
            if tool.name == ECHO:  # the suite compares the schema that the client has with the one it sent
                arguments = {"schema": dict(listing.definitions[0].input_schema)}
            await call(clients, tool, arguments)
    finally:
        await clients.close()


if __name__ == "__main__":
    if os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/"):
        from tests.mcp.conformance_login import main as log_in

        log_in()
    else:
        asyncio.run(main())
