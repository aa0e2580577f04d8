"""What the tests of the ledger do outside: a shop that takes orders, and says how often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from demiurge.tools import (
    BoundTool,
    IdempotencyConfig,
    Ledger,
    Redaction,
    Tool,
    ToolContext,
    ToolPolicy,
    ToolResult,
    ToolRunner,
)
from demiurge.tools.ledger.store import MemoryLedgerStore, Write

NAME = "create_order"


@dataclass(frozen=True)
class Order:
    order_id: str
    amount: int = 1


@dataclass(frozen=True)
class Receipt:
    order_id: str
    lines: tuple[int, ...] = ()

    def render(self) -> str:
        return f"<<{self.order_id}>>"


class Shop:
    """`taken`: the orders that came in, in order."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self._lock = threading.Lock()

    def take(self, params: Order) -> ToolResult[Receipt]:
        with self._lock:
            self.taken.append(params.order_id)
        return ToolResult("ordered", Receipt(params.order_id, (params.amount,)))

    def place(self, params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        return self.take(params)


def order_tool(handler: Callable[..., Any], name: str = NAME, **options: Any) -> Tool[Any, Any]:
    options.setdefault("idempotency", IdempotencyConfig())
    options.setdefault("redaction", Redaction.allow("order_id"))
    return Tool[Order, Receipt](name=name, description="Order.", handler=handler, **options)


def runner_for(tool: Tool[Any, Any] | BoundTool, ledger: Ledger | None, **options: Any) -> ToolRunner:
    options.setdefault("policy", ToolPolicy((tool.spec.name,)))
    return ToolRunner([tool], ledger=ledger, **options)


class HookedStore(MemoryLedgerStore):
    """Calls `hook(write)` where a disk would be written; `threads`: from which threads."""

    blocking = True

    def __init__(self, hook: Callable[[str], None] = lambda write: None) -> None:
        super().__init__()
        self.hook = hook
        self.threads: set[threading.Thread] = set()

    def reading(self) -> Self:
        self.threads.add(threading.current_thread())
        return super().reading()

    def writing(self, write: Write) -> Self:
        self.threads.add(threading.current_thread())
        self.hook(write)
        return super().writing(write)
