"""How often the local model calls the right tool: a table of requests, each in a fresh chat.

    python -m bench.local_eval REQUESTS.json [--system TEXT_FILE] [--verbose]

REQUESTS.json: {"tools": [ids], "requests": [{"say", "expect": {tool id: {argument: [accepted]}}}]}. An argument is
right when it contains an accepted value (any case); an accepted "" means empty or left out. `"expect": {}` means no
call at all. Exits with 1 below nine of ten.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from demiurge.apps.demiurge import app
from demiurge.models import GenerateRequest, LocalEngine, ModelClient
from demiurge.models.local import Progress, fetch
from demiurge.tools import CORE_TOOLS, ToolCatalog, ToolPolicy, ToolSpec
from demiurge.wire.items import Completion, Message, Text

PASS = 0.9


def is_right(completion: Completion, expected: dict[str, dict[str, list[str]]]) -> bool:
    """Whether the answer is the expected call (or no call, where none is expected)."""
    if not expected or len(completion.tool_calls) != 1:
        return not expected and not completion.tool_calls
    call = completion.tool_calls[0]
    if call.invalid or call.name not in expected:
        return False
    arguments = json.loads(call.arguments_json)
    return all(_accepts(arguments.get(name), values) for name, values in expected[call.name].items())


def _accepts(value: object, accepted: list[str]) -> bool:
    text = "" if value is None else str(value)
    return any(text == "" if wanted == "" else wanted.lower() in text.lower() for wanted in accepted)


async def ask(
    client: ModelClient, engine: LocalEngine, specs: tuple[ToolSpec, ...], system: str, say: str
) -> Completion:
    """One request in a fresh chat."""
    items = (Message("system", (Text(system),)), Message("user", (Text(say),)))
    request = GenerateRequest(
        provider="local",
        model=engine.model,
        items=items,
        specs=specs,
        temperature="0",
        max_tokens=400,
        api_key=engine.api_key,
        base_url=engine.base_url,
    )
    return await client.generate(request)


async def evaluate(data: dict[str, Any], system: str, *, verbose: bool) -> float:
    """Run all requests, print the table, return the share that was right."""
    engine = LocalEngine(fetch(report))
    engine.start()
    allowed = tuple(data.get("tools", [tool.name for tool in CORE_TOOLS]))
    specs = ToolCatalog.compile(CORE_TOOLS, ToolPolicy(allowed_tools=allowed)).specs()
    right = 0
    async with ModelClient() as client:
        for number, row in enumerate(data["requests"], 1):
            began = time.perf_counter()
            completion = await ask(client, engine, specs, system, row["say"])
            good = is_right(completion, row["expect"])
            right += good
            did = " ".join(f"{c.name} {c.arguments_json}" for c in completion.tool_calls) or completion.text
            if verbose or not good:
                mark = "ok " if good else "BAD"
                print(
                    f"{number:3} {mark} {time.perf_counter() - began:5.1f} s  {row['say'][:56]:56}  {did[:90]!r}",
                    flush=True,
                )
    engine.stop()
    print(f"{right} of {len(data['requests'])} right")
    return right / len(data["requests"])


def report(progress: Progress) -> None:
    if progress.phase == "download" and sys.stderr.isatty():
        print(f"\r{progress.done / max(1, progress.total):4.0%}", end="", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--system", type=Path, help="a file with another system sentence")
    parser.add_argument("--verbose", action="store_true", help="print the right ones too")
    options = parser.parse_args()
    data = json.loads(options.requests.read_text("utf-8"))
    system = options.system.read_text("utf-8").strip() if options.system else app().system_prompt
    return 0 if asyncio.run(evaluate(data, system, verbose=options.verbose)) >= PASS else 1


if __name__ == "__main__":
    sys.exit(main())
