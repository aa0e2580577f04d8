import asyncio
import os

from demiurge import ToolContext, ToolEffect, World, tool
from demiurge.tools.capabilities import HttpAccess, SecretName

SERVICE = "https://api.weather.example"


@tool(effect=ToolEffect.READ_ONLY, capabilities=(HttpAccess,))
async def forecast(city: str, context: ToolContext) -> str:
    """Say how the weather in a city will be tomorrow."""
    http = context.resources.get(HttpAccess)
    assert http is not None
    key = {"x-api-key": SecretName("weather/key", 1)}
    answer = await http.request("GET", f"{SERVICE}/tomorrow/{city}", headers=key, timeout_s=10)
    return answer.body.decode() if answer.status == 200 else f"The service answers with status {answer.status}."


async def ask(environment: dict[str, str]) -> None:
    async with World.open("weather.world", [forecast], manifest="weather", environment=environment) as world:
        outcome = await world.call("forecast", {"city": "Oslo"})
        print(outcome.error_code, "-", outcome.message)


if __name__ == "__main__":
    asyncio.run(ask({"HOME": os.getcwd()}))
