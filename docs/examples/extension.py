import asyncio
from pathlib import Path

from demiurge import World
from demiurge.world.manifest import BadManifest


async def show() -> None:
    async with World.open("weather.world", manifest="weather") as world:
        manifest = world.manifest()
        print("grants:", ", ".join(grant["name"] for grant in manifest["root"]["defaults"]["cap_grants"]))
        print("settings:", {name: manifest["root"]["settings"][name] for name in ("max_tokens", "window_turns")})
        print("extends:", manifest["extension"]["root"]["extends"])


asyncio.run(show())

file = Path("weather/manifest.json")
text = file.read_text("utf-8").replace('"cap_webhook"', '"cap_llm", "cap_mail"')
file.write_text(text, encoding="utf-8")
try:
    World.open("weather.world", manifest="weather")
except BadManifest as refused:
    for problem in refused.problems:
        print(problem)
