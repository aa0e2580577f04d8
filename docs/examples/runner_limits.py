import asyncio

from demiurge import Budgets, Redaction, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool

LINES = [f"{number:03} GET /orders/{number}" for number in range(40)]


@tool(effect=ToolEffect.READ_ONLY, timeout=0.05)
async def account_balance(account: str) -> ToolResult[None]:
    """Asks the bank for a balance."""
    await asyncio.Event().wait()  # the bank does not answer today
    return ToolResult("never said")


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, timeout=0.05)
async def send_money(account: str, cents: int) -> ToolResult[None]:
    """Has the bank send money."""
    await asyncio.Event().wait()
    return ToolResult("never said")


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("count"))
def read_log() -> ToolResult[dict[str, object]]:
    """Reads the log of today."""
    return ToolResult("The log of today.", {"count": len(LINES), "lines": LINES})


class Shelf(dict[str, bytes]):
    def put(self, data: bytes, /) -> str:
        name = f"shelf:{len(self) + 1}"
        self[name] = data
        return name


policy = ToolPolicy(("account_balance", "send_money", "read_log"), budgets=Budgets(max_result_bytes=200))
runner = ToolRunner([account_balance, send_money, read_log], policy=policy, blobs=Shelf())

for name, arguments in (
    ("account_balance", {"account": "DE1"}),
    ("send_money", {"account": "DE2", "cents": 100}),
    ("read_log", {}),
):
    result = runner.exec_sync(name, arguments)
    print(name, "|", result.error_code, "|", result.value, "|", result.safe_message or result.content)
