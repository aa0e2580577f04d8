"""Tools on demand: the tokens of a request with 20, 100 and 500 real tools, and how often the right tool is found.

    python -m bench.tools_on_demand SCHEMAS [--local N]

SCHEMAS is a folder with `mcp_tools.json` ({server: [definition]}) and `bfcl_functions.jsonl.gz` (function definitions).
The tools of the servers come first, then functions until there are enough. Each of the requests in
`tools_on_demand.json` wants one tool of a server. A scripted model searches with the words of the request. With
`--local` the local model answers the first N requests: it has to search, and then to call the right tool.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from demiurge.apps.demiurge import app
from demiurge.bootstrap.offered_tools import offered_tools, tokens_of
from demiurge.models import GenerateRequest, LocalEngine, ModelClient
from demiurge.models.local import fetch
from demiurge.tools import CORE_TOOLS, ToolSpec
from demiurge.tools.core.find_tools import FoundTool
from demiurge.tools.ids import FIND_TOOLS, is_tool_id
from demiurge.tools.tool_search import search_tools
from demiurge.wire.items import Item, Message, Text, ToolCall, ToolOutput
from demiurge.world.effects.deferred_tools import with_deferred

REQUESTS = Path(__file__).with_suffix(".json")
SIZES = (20, 100, 500)


def real_tools(folder: Path) -> Iterator[ToolSpec]:
    """Yields the tools of the servers, then the functions whose names are tool ids."""
    servers = json.loads((folder / "mcp_tools.json").read_text("utf-8"))
    for server, tools in servers.items():
        for tool in tools:
            yield ToolSpec(
                f"mcp__{server}__{tool['name']}", tool.get("description", ""), tool["inputSchema"], untrusted=True
            )
    with gzip.open(folder / "bfcl_functions.jsonl.gz", "rt", encoding="utf-8") as lines:
        seen: set[str] = set()
        for each in map(json.loads, lines):
            if is_tool_id(each["name"]) and each["name"] not in seen:
                seen.add(each["name"])
                yield ToolSpec(each["name"], each["description"], each["parameters"])


def chosen(folder: Path, count: int, wanted: Sequence[str]) -> list[ToolSpec]:
    """Returns so many tools, among them those that are wanted."""
    every = list(real_tools(folder))
    first = [spec for spec in every if spec.name in wanted]
    return [*first, *islice((spec for spec in every if spec.name not in wanted), count - len(first))]


def main() -> None:
    given = argparse.ArgumentParser(prog="python -m bench.tools_on_demand")
    given.add_argument("schemas", type=Path)
    given.add_argument("--local", type=int, default=0, metavar="N")
    arguments = given.parse_args()
    requests = json.loads(REQUESTS.read_text("utf-8"))
    wanted = [request["tool"] for request in requests]
    core = [tool.spec for tool in CORE_TOOLS]
    for size in SIZES:
        specs = chosen(arguments.schemas, size, wanted)
        whole = sum(map(tokens_of, [*core, *specs]))
        offered = offered_tools([*core, *specs], {}, has_catalog=False, has_large_results=True)
        sent = sum(tokens_of(with_deferred(spec, offered.deferred)) for spec in offered.described)
        found = [request["tool"] in [spec.name for spec in search_tools(specs, request["say"])] for request in requests]
        first = [request["tool"] == search_tools(specs, request["say"], 1)[0].name for request in requests]
        print(
            f"{size:4} tools: {whole:6} tokens whole, {sent:5} on demand ({1 - sent / whole:.1%} fewer); found "
            f"{sum(found)}/{len(found)}, first {sum(first)}/{len(first)}",
            flush=True,
        )
        if arguments.local:
            right = asyncio.run(by_local_model(specs, requests[: arguments.local]))
            print(f"           the local model calls the right tool in {right} of {arguments.local}", flush=True)


async def by_local_model(specs: Sequence[ToolSpec], requests: Sequence[dict[str, Any]]) -> int:
    """Returns in how many of the requests the local model calls the right tool, at once or after a search."""
    engine = LocalEngine(fetch())
    engine.start()
    core = [tool.spec for tool in CORE_TOOLS]
    offered = offered_tools([*core, *specs], {}, has_catalog=False, has_large_results=False)
    described = [with_deferred(spec, offered.deferred) for spec in offered.described]
    known = {spec.name: spec for spec in specs}
    right = 0
    async with ModelClient() as client:
        for request in requests:
            items: list[Item] = [
                Message("system", (Text(app().system_prompt),)),
                Message("user", (Text(request["say"]),)),
            ]
            sent = list(described)
            for _ in range(3):
                answer = await client.generate(
                    GenerateRequest(
                        provider="local",
                        model=engine.model,
                        items=tuple(items),
                        specs=tuple(sent),
                        temperature="0",
                        max_tokens=200,
                        api_key=engine.api_key,
                        base_url=engine.base_url,
                    )
                )
                if len(answer.tool_calls) != 1 or answer.tool_calls[0].name != FIND_TOOLS:
                    break
                call = answer.tool_calls[0]
                query = json.loads(call.arguments_json).get("query", "")
                found = search_tools([known[name] for name in offered.deferred if name in known], query)
                sent += [spec for spec in found if spec not in sent]
                told = json.dumps({"tools": [vars_of(spec) for spec in found]})
                items += [
                    ToolCall(call.id, call.name, call.arguments_json),
                    ToolOutput(call.id, f"You can call these now.\n\n{told}"),
                ]
            names = [call.name for call in answer.tool_calls]
            right += names == [request["tool"]]
            print(f"             {names or answer.text[:60]!r} for {request['say']}", flush=True)
    engine.stop()
    return right


def vars_of(spec: ToolSpec) -> dict[str, Any]:
    found = FoundTool.of(spec, with_schema=False)
    return {"id": found.id, "description": found.description, "arguments": list(found.arguments)}


if __name__ == "__main__":
    main()
