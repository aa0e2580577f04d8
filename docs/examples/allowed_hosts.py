import asyncio

from demiurge import ToolContext, ToolEffect, World, tool
from demiurge.tools.capabilities import HttpAccess

RATES = "rates.example.com"


@tool(effect=ToolEffect.READ_ONLY)
async def exchange_rate(currency: str, context: ToolContext) -> str:
    """Look up the price of one euro in a currency."""
    http = context.resources.get(HttpAccess)
    assert http is not None
    answer = await http.request("GET", f"https://{RATES}/euro/{currency}", timeout_s=10)
    return answer.body.decode() if answer.status == 200 else f"The service answers with status {answer.status}."


async def ask(hosts: list[str]) -> None:
    async with World.open("rates.world", [exchange_rate], http=hosts) as world:
        outcome = await world.call("exchange_rate", '{"currency": "USD"}')
        print(outcome.error_code, "-", outcome.message or outcome.content)


async def main() -> None:
    await ask([])
    await ask(["other.example.com", "rates.example.com:8443"])


if __name__ == "__main__":
    asyncio.run(main())
