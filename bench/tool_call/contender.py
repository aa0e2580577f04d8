"""Who is compared, by which entry point, and what each does in the timed call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["CALLS", "HISTORY", "IMPORTS", "OURS", "PEERS", "STEPS", "Contender", "Peer"]

FOLDER = Path(__file__).parent
STEPS = {
    "v": "validates the arguments",
    "o": "validates the output",
    "p": "asks a policy",
    "a": "has approvals bound",
    "x": "redacts for the public",
    "e": "emits events",
    "s": "snapshots its session",
    "r": "makes an audit record",
    "l": "claims and settles in a ledger",
    "j": "appends the record to a journal in memory",
}


@dataclass(frozen=True)
class Peer:
    """A library in an environment of its own. `python`: the oldest version it needs, if that is above ours; `folder`:
    where its requirements and its script are."""

    name: str
    python: tuple[int, int] | None = None
    folder: Path = FOLDER / "peers"

    @property
    def requirements(self) -> Path:
        return self.folder / f"{self.name}.txt"

    @property
    def script(self) -> Path:
        return self.folder / f"{self.name}.py"


OURS = "demiurge"
PEERS = (
    Peer("pydantic_ai"),
    Peer("openai_agents"),
    Peer("langchain_core"),
    Peer("fastmcp"),
    Peer("mcp"),
    Peer("weakincentives", python=(3, 12)),
    Peer("agt"),
)


@dataclass(frozen=True)
class Contender:
    """One line of a table. `owner`: OURS or a peer's name; `entry`: a name in its script's ENTRIES, or None where it
    has nothing of the kind. `does`: letters of STEPS. `calls` per batch, None to fit one batch into a fixed time;
    `fresh`: every batch starts from a new set-up."""

    level: str
    owner: str
    what: str
    entry: str | None
    does: str = ""
    handlers: tuple[str, ...] = ("async def", "def")
    history: int = 0
    calls: int | None = None
    fresh: bool = False


CALLS = (
    Contender("bare", OURS, "by hand: parse, call, dump", "by hand"),
    Contender("bare", OURS, "BoundTool parse, call, dump", "layer", "vo"),
    Contender("bare", OURS, "ToolRunner.exec", "bare", "vopxr"),
    Contender("bare", OURS, "ToolRunner.exec, inline=True", "inline", "vopxr", ("def",)),
    Contender("bare", "pydantic_ai", "ToolManager.handle_call", "handle_call", "v"),
    Contender("bare", "openai_agents", "FunctionTool.on_invoke_tool", "on_invoke_tool", "v"),
    Contender("bare", "openai_agents", "invoke_function_tool", "invoke_function_tool", "v"),
    Contender("bare", "langchain_core", "StructuredTool.ainvoke / invoke", "invoke", "ve"),
    Contender("bare", "fastmcp", "FunctionTool.run", "run", "v"),
    Contender("bare", "mcp", "MCPServer.call_tool", "call_tool", "vo"),
    Contender("governed", OURS, "ToolRunner.exec, all stages", "governed", "vopaxerlj"),
    Contender("governed", "pydantic_ai", "the same, approval_required", "approval", "va"),
    Contender("governed", "openai_agents", "(only in its own agent loop)", None),
    Contender("governed", "langchain_core", "the same, a callback handler", "callbacks", "ve"),
    Contender("governed", "fastmcp", "FastMCP.call_tool, one middleware", "call_tool", "vp"),
    Contender("governed", "mcp", "(has no policy in its server)", None),
    Contender("governed", "agt", "govern, one rule, audit in memory", "govern", "pr"),
    Contender(
        "governed", "weakincentives", "BridgedTool, one policy", "bridged", "vpes", ("def",), calls=10, fresh=True
    ),
)

_OURS = Contender("history", OURS, "governed, after {:,} calls", "governed", "vopaxerlj", ("async def",), calls=20)
_SESSION = Contender(
    "history", OURS, "prompt, session, reducers, after {:,} calls", "session", "vopxesr", ("def",), calls=20
)
_WINK = Contender("history", "weakincentives", "BridgedTool, after {:,} calls", "bridged", "vpes", ("def",), calls=2)
HISTORY = tuple(
    replace(line, what=line.what.format(calls), history=calls, fresh=calls <= 100)
    for line, points in (
        (_OURS, (0, 100, 1_000, 10_000, 100_000)),
        (_SESSION, (50, 800, 10_000)),
        (_WINK, (50, 800)),
    )
    for calls in points
)

IMPORTS = (
    (OURS, "import demiurge"),
    (OURS, "from demiurge import Tool, ToolRunner"),
    ("pydantic_ai", "from pydantic_ai import Agent, Tool"),
    ("openai_agents", "from agents import Agent, function_tool"),
    ("langchain_core", "from langchain_core.tools import tool"),
    ("fastmcp", "from fastmcp import FastMCP"),
    ("mcp", "from mcp.server import MCPServer"),
    ("weakincentives", "from weakincentives.prompt import Tool"),
    ("agt", "from agentmesh.governance import govern"),
)
