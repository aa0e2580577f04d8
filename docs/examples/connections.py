from demiurge import (
    AuthCapability,
    ConnectionBroker,
    MemoryConnectionStore,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolPolicyContext,
    ToolRunner,
    tool,
)
from demiurge.tools import Connection, Credentials, KeyRing

TRACKER = {"Bearer ada-token-2": ["The door squeaks."]}  # ada-token-1 is not good any more


def headers(context: ToolContext) -> dict[str, str]:
    auth = context.resources.get(AuthCapability)
    assert auth is not None
    return auth.get_auth_headers()


@tool(effect=ToolEffect.READ_ONLY, requires_connection=True)
def my_issues(context: ToolContext) -> list[str]:
    """Lists the user's issues."""
    return TRACKER[headers(context)["Authorization"]]


@tool(effect=ToolEffect.READ_ONLY, requires_connection=True)
def debug(context: ToolContext) -> str:
    """Says what would be sent to the tracker."""
    return f"GET /issues {headers(context)}"


def renew(connection: Connection, old: Credentials) -> Credentials:
    return Credentials("ada-token-2")


keys = KeyRing({"2026": "5a" * 32})
broker = ConnectionBroker(MemoryConnectionStore(), keys, refresh={"tracker": renew})
ada = broker.add(tenant="acme", provider="tracker", credentials=Credentials("ada-token-1", expires_at_ms=0))
bob = broker.add(tenant="acme", provider="tracker", credentials=Credentials("bob-token-1"))

caller = ToolPolicyContext(run_id="run-7", actor="user:ada", tenant="acme")
runner = ToolRunner(
    [my_issues, debug],
    policy=ToolPolicy(("my_issues", "debug")),
    connections=broker.access(granted=[ada.id, bob.id], declared=[ada.id]),
)
for name, connection_id in (("my_issues", ada.id), ("debug", ada.id), ("my_issues", bob.id), ("my_issues", None)):
    result = runner.exec_sync(name, {}, ctx=caller, connection_id=connection_id)
    owner = {ada.id: "ada's", bob.id: "bob's"}.get(connection_id or "", "no")
    print(f"{name} with {owner} connection: {result.error_code or result.content}")
