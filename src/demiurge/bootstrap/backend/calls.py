"""The calls that a world answers, each declared once, with the roles that may make it.

`World` makes them on a `Backend`: that of the process which owns the world, or that of one which joined
it. Everything else is derived from these declarations (`operations`): which roles are asked for, what travels over the
owner's socket, and the client at its other end. Arguments and results are plain data, dataclasses and named tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from demiurge.bootstrap.backend.budget_use import BudgetUse
from demiurge.bootstrap.backend.call_roles import VIEWER, needs, only_reads
from demiurge.bootstrap.backend.keep_calls import Frames, KeepCalls, NewManifest, Shown
from demiurge.bootstrap.backend.layer_sync import ExportedTools, LayerStatus
from demiurge.bootstrap.backend.mcp_views import McpServerView
from demiurge.bootstrap.backend.review_views import CatalogTool, IssueView, ToolProposalView, ToolVersion
from demiurge.bootstrap.backend.webhooks import AddedWebhook, Webhook, WebhookTest
from demiurge.bootstrap.backend.world_connections import WorldConnection
from demiurge.stores.protocol import Head
from demiurge.values.caller import Caller
from demiurge.values.projection import Only
from demiurge.values.refs import Ref
from demiurge.world.host import Accepted

__all__ = ["Backend", "Frames", "KeepCalls", "NewManifest", "OnFrame", "ReadCalls", "RunCalls", "Shown"]

OnFrame = Callable[[Shown], None]


class RunCalls(Protocol):
    """The calls that let something happen in a world, and the one that watches it."""

    @needs("agent")
    async def submit(self, schema: str, value: Any, key: str | None, idempotency_key: str | None) -> Accepted: ...

    @needs("agent")
    async def settle(self, unit: str | None) -> None:
        """Returns when the unit (None: every unit) has settled: only a person's decision or a timer can continue its
        work."""
        ...

    @needs("agent")
    def settling(self, unit: str | None, after: Sequence[Shown] = ()) -> Frames:
        """The frames of `watch` until the unit has settled (`settle`)."""
        ...

    @needs("agent")
    def ask_call(
        self,
        call_id: str,
        asker: str,
        tool: str,
        arguments_json: str,
        takes_up: bool = False,
        shows: bool = False,
        waits: bool = True,
        answers: Sequence[str] | None = None,
        client: str = "",
    ) -> Frames:
        """Asks for an `AskedCall`. Yields what `AskedCalls.ask` yields, and stays until `leave_call`."""
        ...

    @needs("agent")
    async def own_request(self, call_id: str) -> dict[str, Any] | None:
        """The waiting call of this caller, if it asks its asker alone. Raises NotFound (`no_call`)."""
        ...

    @needs("agent")
    async def answer_own(self, approval_id: str, given: dict[str, Any]) -> None:
        """Answers what `own_request` returned, and nothing else."""
        ...

    @needs("agent")
    async def leave_call(self, call_id: str, asker: str, read: bool) -> bool:
        """Ends the wait of an asker; with `read`, its answer was given. Returns whether somebody else waits."""
        ...

    @needs("agent")
    async def complete_argument(self, tool: str, argument: str, value: str, given: dict[str, str]) -> dict[str, Any]:
        """The values that an MCP server proposes for an argument of a prompt or a template: `{values, total,
        has_more}`. `tool`: its id. Nothing is recorded."""
        ...

    @needs("agent")
    def follow_resource(self, tool: str, uri: str) -> Frames:
        """Yields `{type: "following"}` once the server of a resource tells its changes, then `{type: "updated"}` for
        each. `tool`: the id of the resource, or of the template that makes the address `uri`."""
        ...

    @only_reads
    @needs(*VIEWER)
    def watch(self, unit: str | None, after: Sequence[Shown] = ()) -> Frames:
        """Yields the frames of the effects that run in a unit (None: in all), for ever. Starts nothing. `after`: frames
        that the caller has seen; what they cover is left out."""
        ...

    @needs("approver")
    async def decide(self, approval_id: str, approve: bool, reason: str, arguments_json: str | None = None) -> None:
        """Decides on a call that waits; with `arguments_json`, a call with these arguments runs in its place."""
        ...

    @needs("approver")
    async def answer(self, approval_id: str, text: str | None, given: dict[str, Any] | None = None) -> None:
        """Answers a question that waits. The text becomes the result of a call of `core__ask_user`, or answers the only
        question of a tool; `given` is what a tool's questions take otherwise (`backend.given_answer`)."""
        ...

    @needs("approver")
    async def allow(
        self, approval_id: str, pattern_json: str | None, count: int, lasts_s: float, reason: str
    ) -> dict[str, Any]:
        """Makes a standing rule from a call that waits, which it allows with `count - 1` further ones of the same chat
        that match the pattern (None: exactly these arguments) within `lasts_s` seconds; see
        `world.authority.standing_rule`. Returns `{id, unit, tool, pattern_json}`."""
        ...

    @needs("approver")
    async def forget_rule(self, rule: str) -> None:
        """Ends a standing rule."""
        ...

    @needs("approver")
    async def settle_doubt(self, doubt_id: str, done: bool, reason: str, result_json: str | None) -> dict[str, Any]: ...

    @needs("agent")
    async def cancel(self, unit: str, reason: str) -> None: ...

    @needs("user")
    async def add_connection(self, connection_id: str, terms: dict[str, Any]) -> None:
        """Adds a connection; its credentials are in the user's vault by then. `terms`: `{provider, credential_type,
        tenant, scopes, tools, expires_at_ms}`."""
        ...

    @needs("user")
    async def revoke_connection(self, connection_id: str, reason: str) -> None: ...

    @needs("user")
    async def choose_connection(self, unit: str, tool: str | None, connection_id: str | None) -> None:
        """Lets the calls of a unit, or of one tool in it, use a connection (None: no connection)."""
        ...

    @needs("user")
    async def add_webhook(self, url: str, name: str) -> AddedWebhook:
        """Adds a webhook, which is told whenever a call waits for a person. The whole URL and the key go into the
        user's vault; the world records the URL's scheme, host and port."""
        ...

    @needs("user")
    async def remove_webhook(self, webhook_id: str) -> None: ...

    @needs("user")
    async def rotate_webhook(self, webhook_id: str) -> AddedWebhook:
        """Makes a new key; the former key signs too until the next rotation."""
        ...

    @needs("user")
    async def test_webhook(self, webhook_id: str) -> WebhookTest:
        """Sends one notice that says that it is a test. If the receiver confirms it, a stopped webhook goes on."""
        ...

    @needs("user")
    async def add_mcp_server(self, settings: dict[str, Any]) -> None:
        """Adds an MCP server (`ServerSettings.to_json`). Its tools are not in the catalog before they are trusted."""
        ...

    @needs("user")
    async def remove_mcp_server(self, name: str) -> None: ...

    @needs("user")
    async def refresh_mcp_server(self, name: str) -> None:
        """Connects to a server and has it list its tools now."""
        ...

    @needs("user")
    async def trust_mcp_tools(
        self,
        name: str,
        tools: Sequence[str] | None,
        rule: str,
        effect: str | None,
        public: Sequence[str],
        pins: dict[str, str],
    ) -> None:
        """Trusts tools of a server, by their ids or the server's names (None: all), as it listed them last. `pins`: the
        definitions that the person saw, by tool id; a tool whose definition is another one by now is refused."""
        ...

    @needs("user")
    async def untrust_mcp_tools(self, name: str, tools: Sequence[str] | None) -> None: ...

    @needs("user")
    async def adopt_mcp_server(self, name: str, digest: str) -> None:
        """Accepts a server that was added elsewhere, with the settings of this digest
        (`trust.local_servers.settings_digest`), for this user in this place."""
        ...

    @needs("agent", "approver", "chief")
    async def submit_review(self, schema: str, value: dict[str, Any], text: str | None = None) -> None:
        """Sends an event to a proposal or to an issue, and waits for its consequences. Raises the error with which the
        unit refuses it; the unit decides who may do what. `text`: a new proposal, or the body of a new issue; the owner
        stores it, so this takes no right to store blobs, and no address stands for a text."""

    @needs("user")
    async def sync_tool_files(self) -> list[LayerStatus]:
        """Reads the files of prompt tools; each change in them becomes a proposal, once."""
        ...

    @needs("user")
    async def export_tool_files(self) -> ExportedTools:
        """Writes the live prompt tools of the user and of the project, and their history, to their files."""
        ...

    @needs("agent")
    async def prompt_catalog(self, has_reader: bool = False) -> Ref | None:
        """Stores the catalog text of the approved prompt tools, for one turn of a chat: the message that names it
        brings it. With `has_reader` the text names the tool that reads prompt tools, which the message offers. None if
        the manifest's setting `prompt_catalog` is `off`, or a world has no registry."""
        ...

    @needs("agent")
    def put_blob(self, data: bytes, force: bool = False) -> Ref: ...


class ReadCalls(Protocol):
    """The calls that read a world. Nothing runs because of them."""

    @needs(*VIEWER)
    async def state(self, module: str, key: str, at: int | None = None, only: Only = "all") -> dict[str, Any] | None:
        """The part `only` of the cell as JSON-ready data; None when there is no cell."""
        ...

    @needs(*VIEWER)
    def appends(self) -> Frames:
        """Yields `{"length": n}`, the number of records, at once and after each append, until the world is closed."""
        ...

    @needs(*VIEWER)
    async def keys(self, module: str) -> list[str]: ...

    @needs("agent", "approver")
    async def approvals(self, of: str | None = None) -> list[dict[str, Any]]:
        """Calls that wait for a person, of one unit or all: `{id, unit, seq, tool, tool_call_id, arguments_json,
        damaged, withheld, expires_ns, asks, ...}`; `seq` is the intent's number in its unit; `damaged` is None, or says
        what of a call can't be read (`waiting_calls`); `withheld` is true of a call that the caller may not decide,
        whose arguments are left out."""
        ...

    @needs(*VIEWER)
    async def waiting_units(self, of: str | None = None) -> list[str]:
        """The units, of one unit or all, in which a call waits for a person."""
        ...

    @needs("agent", "approver")
    async def standing_rules(self, of: str | None = None) -> list[dict[str, Any]]:
        """The standing rules that hold, of one unit or all: `{id, unit, tool, spec_hash, actor, rule_digest,
        pattern_json, expires_ns, left, by, reason, at_ms}`."""
        ...

    @needs("agent", "approver")
    async def begun(self, of: str | None = None) -> list[dict[str, Any]]:
        """The effects, of one unit or all, that a process began and did not end before it exited; see
        `bootstrap.doubts.Doubts.begun`."""
        ...

    @needs("agent", "approver")
    async def doubts(self, settled: bool = False) -> list[dict[str, Any]]:
        """The effects of unknown outcome, see `bootstrap.doubts.Doubts.found`, and those of `begun`."""
        ...

    @needs("agent", "chief")
    async def connections(self) -> list[WorldConnection]: ...

    @needs("user")
    async def webhooks(self) -> list[Webhook]:
        """The webhooks, oldest first."""
        ...

    @needs("user")
    async def mcp_servers(self) -> list[McpServerView]:
        """The MCP servers by name, their tools without descriptions and changes."""
        ...

    @needs("user")
    async def mcp_server(self, name: str) -> McpServerView:
        """An MCP server with everything about its tools."""
        ...

    @needs(*VIEWER)
    async def prompt_tools(self) -> list[CatalogTool]:
        """The prompt tools of the catalog: the core tools, then the approved ones by id."""
        ...

    @needs(*VIEWER)
    async def damaged_prompt_tools(self) -> list[str]:
        """Sentences about the approved prompt tools that are not in the catalog because their text can't be read."""
        ...

    @needs("agent", "approver", "chief")
    async def tool_versions(self, tool: str | None = None) -> list[ToolVersion]:
        """The approved versions of a prompt tool (None: of all), newest first."""
        ...

    @needs("agent", "approver", "chief")
    async def approved_document(self, ref: str) -> dict[str, Any]:
        """The document of an approval, or the record of an approved prompt tool, by the address in a `ToolVersion`; no
        other blob."""
        ...

    @needs("agent", "approver", "chief")
    async def proposals(self, state: str | None = None, tool: str | None = None) -> list[ToolProposalView]:
        """The proposals in this state (None: in any) for this tool, newest first, without bodies."""
        ...

    @needs("agent", "approver", "chief")
    async def proposal(self, proposal_id: str) -> ToolProposalView: ...

    @needs("agent", "approver", "chief")
    async def issues(self) -> list[IssueView]:
        """The issues, newest first, without bodies and comments."""
        ...

    @needs("agent", "approver", "chief")
    async def issue(self, issue_id: str) -> IssueView: ...

    @needs(*VIEWER)
    async def info(self) -> dict[str, Any]:
        """`{world_id, manifest, settings, catalog: [spec], tools: [name], notices: [text], missing: [module], origin,
        own_manifest, adopted, unfit, lacking, prompt_catalog}`; `prompt_catalog`: turns of chats may have a catalog of
        prompt tools."""
        ...

    @needs("user")
    async def tool_files(self) -> list[LayerStatus]:
        """The states of the files of prompt tools; the files are read."""
        ...

    @needs("agent", "approver", "chief")
    async def budgets(self, units: Sequence[str]) -> dict[str, list[BudgetUse]]:
        """The use of each limit that bounds one of these units, by the unit; see `budget_use`. A unit that no budget
        bounds is left out."""
        ...

    @needs(*VIEWER)
    def manifest(self) -> bytes:
        """The node of the manifest in force. Until something runs in the owner, it is the manifest that will be in
        force then."""
        ...

    @needs(*VIEWER)
    def manifest_log(self) -> list[dict[str, Any]]:
        """Every change of the manifest in force, oldest first: `{seq, at_ns, caller, how, manifest, old, changed}`.
        `changed` names the parts, None where the manifests can't be compared."""
        ...

    @needs(*VIEWER)
    def replay_risks(self) -> list[dict[str, Any]]:
        """The places in the reducers' code that may differ at a replay: `{module, line, name, why}`."""
        ...

    @needs(*VIEWER)
    def get_blob(self, ref: str) -> bytes:
        """The bytes of a blob that the caller may read (`visibility`)."""
        ...

    @needs(*VIEWER)
    def get_blobs(self, refs: Sequence[str]) -> dict[str, bytes]:
        """The bytes of those blobs that can be read, by address, as far as they fit in one answer. `get_blob` reads
        one that was left out, or says why it cannot be read."""
        ...

    @needs(*VIEWER)
    def message(self, ref: str) -> dict[str, Any]:
        """A message of a chat, without the arguments of the calls that it proposes: `{role, text, attachments: [type],
        tool_calls: [{id, name}], skip_tool_catalog}`."""
        ...

    @needs(*VIEWER)
    def records(self, unit: str | None, start: int, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` records as the caller may see them, see `visibility.Visibility.record`. `start` is a unit's
        sequence number, or a position."""
        ...

    @needs("agent", "chief")
    def rows(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        """Up to `limit` records: (position, record bytes). `start` is a unit's sequence number, or a position."""
        ...

    @needs(*VIEWER)
    def attempts(self, intents: Sequence[str]) -> dict[str, int]:
        """When effects first began, in nanoseconds of wall time, by the id of their intents; without those that have
        not begun."""
        ...

    @needs(*VIEWER)
    def heads(self, prefix: str = "", limit: int | None = None) -> list[Head]:
        """The heads of the first `limit` units whose names begin with `prefix`, by unit name."""
        ...

    @needs(*VIEWER)
    def archives(self) -> list[dict[str, Any]]:
        """`{first, last, records, bytes, packed, seal, file, here}` of each archive."""
        ...

    @needs(*VIEWER)
    def lost(self) -> list[str]:
        """The losses of the journal, the ledger, the digest key and the user's notes of this world: sentences that name
        the file and say what to do."""
        ...


class Backend(Protocol):
    """The calls of one caller, which the owner of the world answers."""

    run: RunCalls
    read: ReadCalls
    keep: KeepCalls

    @property
    def caller(self) -> Caller:
        """The caller of all calls made on this backend."""
        ...

    @property
    def owner(self) -> bool:
        """True when this process owns the world."""
        ...

    @property
    def joined(self) -> bool:
        """True while another process, which owns the world, answers the calls."""
        ...

    @property
    def read_only(self) -> str | None:
        """The reason, as a sentence for the user, why this process can't write to the world; None if it can."""
        ...

    def of(self, caller: Caller) -> Backend:
        """Returns a backend of the same world whose calls are made for `caller`."""
        ...

    async def serve(self) -> None:
        """Lets other processes in, if this process is the owner."""
        ...

    async def close(self) -> None:
        """Closes the backend. Calls in progress end with an error."""
        ...
