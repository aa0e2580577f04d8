import asyncio
from pathlib import Path

import shop_order

from demiurge import World
from demiurge.bootstrap.secrets import open_vault
from demiurge.tools import Secret

environment = {"HOME": str(Path.cwd())}
heard: list[bytes] = []


async def service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes a new key from whoever has the old one."""
    heard.append(await reader.readuntil(b"\r\n\r\n"))
    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    writer.close()


async def main() -> None:
    there = await asyncio.start_server(service, "127.0.0.1")
    url = f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}/key"
    reducers = {"keys/Service@1": shop_order.reduce}
    async with World.open("keys.world", environment=environment, manifest="keys", reducers=reducers) as world:
        sealed = await world.seal("web/robot", Secret("sk-example-0123456789"))  # as `demiurge secrets seal` does
        await world.submit("keys/Given@1", {"service": "robots", "url": url, "value_ref": sealed})
        await world.settle()
        print((await world.state("keys/Service@1", "robots"))["history"])
        receipts = [record.body["payload"] for record in world.journal.read() if record.kind == "receipt"]
        print("kept:", [f"{said['alias']}@{said['version']}" for said in receipts if "digest" in said])
    there.close()


asyncio.run(main())
vault = open_vault(environment)
assert vault is not None
values = [found.reveal().encode() for version in (1, 2) if (found := vault.get("web/robot", version))]
print("sent to the service:", [value in heard[0] for value in values])
kept = [path.read_bytes() for folder in ("keys.world", ".local") for path in Path(folder).rglob("*") if path.is_file()]
print("found in a file:", any(value in data for value in values for data in kept))
