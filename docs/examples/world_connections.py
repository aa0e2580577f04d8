import asyncio
from pathlib import Path

from demiurge import AuthCapability, ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.tools import Credentials


@tool(effect=ToolEffect.READ_ONLY, requires_connection=True)
def my_issues(context: ToolContext) -> list[str]:
    """Lists the user's issues."""
    auth = context.resources.get(AuthCapability)
    assert auth is not None
    return ["The door squeaks."] if auth.get_access_token() == "ada-token-0123456789" else []


async def main() -> None:
    environment = {"HOME": str(Path.cwd())}
    policy = ToolPolicy(("my_issues",))
    async with World.open("issues.world", [my_issues], policy, environment=environment) as world:
        ada = await world.connections.add("tracker", Credentials("ada-token-0123456789"), tools=["my_issues"])
        outcome = await world.call("my_issues", "{}", connection_id=ada)
        print("lent:", outcome.content)
        await world.connections.use(ada, "main")  # what the calls of a chat use, until another one is chosen
        [one] = await world.connections.list()
        print(one.provider, one.state, "used by", *one.used_by)
        *_, receipt = [record.body for record in world.journal.read() if record.kind == "receipt"]
        used = receipt["connection"]
        print("receipt:", used["provider"], used["grants"]["tools"], used["caller"]["actor"], used["lent"])
        await world.connections.revoke(ada, "lost")
        outcome = await world.call("my_issues", "{}")
        print("revoked:", outcome.error_code)


asyncio.run(main())
kept = [path.read_bytes() for path in Path().rglob("*") if path.suffix in (".db", ".db-wal", ".json")]
print("found in a file:", any(b"ada-token-0123456789" in data for data in kept))
