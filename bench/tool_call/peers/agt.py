"""Microsoft's Agent Governance Toolkit: `govern` around the function, one rule that allows, its audit log in memory."""

import json
from collections.abc import Callable

from agentmesh.governance import govern

PACKAGE = "agent-governance-toolkit-core"
ARGS = '{"a": 2, "b": 3}'
POLICY = """
apiVersion: governance.toolkit/v1
name: sums
default_action: deny
rules:
  - {name: add, condition: "action.type == 'add'", action: allow, priority: 1}
"""


def add(action: str, a: int, b: int) -> int:
    return a + b


async def add_async(action: str, a: int, b: int) -> int:
    return a + b


async def governed(handler: str, history: int) -> Callable[[], object]:
    safe = govern(add if handler == "def" else add_async, policy=POLICY)

    def call() -> str:
        return str(safe(action="add", **json.loads(ARGS)))

    async def call_async() -> str:
        return str(await safe(action="add", **json.loads(ARGS)))

    return call if handler == "def" else call_async


ENTRIES = {"govern": governed}
