import asyncio
import json
import shutil
from importlib import resources
from pathlib import Path

from verify_webhook import is_genuine

from demiurge import ToolEffect, World, tool

heard: list[tuple[dict[str, str], bytes]] = []
confirmed = asyncio.Event()
STATUSES = iter((500, 204, 204))  # the receiver fails once


async def receiver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lines = [line.split(": ", 1) for line in head.strip().split("\r\n")[1:]]
    headers = {name.lower(): value for name, value in lines}
    heard.append((headers, await reader.readexactly(int(headers["content-length"]))))
    status = next(STATUSES)
    writer.write(f"HTTP/1.1 {status} -\r\n\r\n".encode())
    writer.close()
    if status == 204:
        confirmed.set()


def own_manifest(folder: Path) -> Path:
    """Copies the shipped manifest, and lets webhooks reach this machine."""
    shutil.copytree(Path(str(resources.files("demiurge.apps.demiurge"))) / "air", folder)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    [grant] = [each for each in manifest["defaults"]["cap_grants"] if each["name"] == "cap_webhook"]
    grant["params"] = {"hosts": ["127.0.0.1"], "schemes": ["http"], "internal_networks": ["127.0.0.0/8"]}
    path.write_text(json.dumps(manifest), "utf-8")
    return folder


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send_mail(to: str, text: str) -> str:
    """Sends a mail."""
    return f"Sent to {to}."


async def main() -> None:
    server = await asyncio.start_server(receiver, "127.0.0.1")
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    async with World.open("agent.world", [send_mail], manifest=own_manifest(Path("own"))) as world:
        added = await world.webhooks.add(url, "phone")
        await world.call("send_mail", '{"to": "ada@example.com", "text": "Hello"}')
        await confirmed.wait()  # at the second attempt, which comes after some seconds
        await world.settle()
        [webhook] = await world.webhooks.list()
        print(webhook.name, webhook.state, f"{webhook.delivered} of {webhook.attempts} attempts confirmed")
        print("tested:", (await world.webhooks.test(added.id)).problem)
    server.close()
    for headers, body in heard:
        notice = json.loads(body)
        print(is_genuine(headers, body, added.key), notice["type"], "|", notice["text"])
    print("the same id:", heard[0][0]["webhook-id"] == heard[1][0]["webhook-id"])
    print("arguments:", any(b"ada@example.com" in body for _, body in heard))


asyncio.run(main())
