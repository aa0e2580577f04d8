import asyncio
import os
from pathlib import Path

from demiurge import World
from demiurge.bootstrap.secrets import open_vault
from demiurge.tools import Secret
from demiurge.values.clock import SystemEntropy

environment = {"HOME": str(Path.cwd()), "OPENAI_BASE_URL": os.environ["OPENAI_BASE_URL"]}


async def ask(text: str) -> None:
    async with World.open("secrets.world", environment=environment, provider="openai-responses") as world:
        reply = await world.chat().send(text)
        print(reply.status, "-", reply.message or reply.text)
        *_, receipt = [record.body for record in world.journal.read() if record.kind == "receipt"]
        for handed in receipt.get("secrets", ()):
            print(f"handed out: {handed['alias']}@{handed['version']}, digest of {len(handed['digest'])} digits")


async def main() -> None:
    await ask("Hello?")
    vault = open_vault(environment)
    assert vault is not None
    vault.put("llm/api", 1, Secret("sk-example-0123456789"), SystemEntropy())  # as `demiurge secrets set llm/api` does
    await ask("Order 20 bolts.")


asyncio.run(main())
kept = [path.read_bytes() for path in Path().rglob("*") if path.suffix in (".db", ".db-wal", ".json")]
print("found in a file:", any(b"sk-example-0123456789" in data for data in kept))
