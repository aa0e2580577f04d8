"""`World`: one directory with a durable agent in it. The facade that users import.

Opening takes ownership of the directory, or joins the process that has it. Nothing runs until something is submitted
or settled, so looking at a world changes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from demiurge.bootstrap.backend import Frames, OnFrame, Shown
from demiurge.bootstrap.backend.settling import settle
from demiurge.bootstrap.call import CallOutcome, as_json_text, call_tool
from demiurge.bootstrap.chat import Chat
from demiurge.bootstrap.chat_import import read_export, stored_history
from demiurge.bootstrap.chats import ChatSummary, each_chat
from demiurge.bootstrap.cost import DAYS, cost_with_budgets, today
from demiurge.bootstrap.fork import Fork, absolute
from demiurge.bootstrap.manifest import read_definitions
from demiurge.bootstrap.manifest_change import ENFORCED, OBSERVED, POLICY_SET, SETTINGS_SET, ManifestChange
from demiurge.bootstrap.manifest_settings import Evidence, Titles
from demiurge.bootstrap.observing import Observing, observing
from demiurge.bootstrap.opened_world import OpenedWorld
from demiurge.bootstrap.policy_suggestion import PolicySuggestion, suggest_policy
from demiurge.bootstrap.secrets import open_vault
from demiurge.bootstrap.system_prompt import SystemPrompt, checked_system_prompt, system_prompt_of
from demiurge.bootstrap.toolset import store_toolset
from demiurge.bootstrap.trust.observing_end import check_end, keep_end
from demiurge.bootstrap.world_cost import CostTable, WorldCost
from demiurge.bootstrap.world_options import require_policy
from demiurge.errors import Conflict, Damaged, Divergence, InvalidValue
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.display import ShownRows
from demiurge.tools.input_required import Action
from demiurge.tools.policy import ToolPolicy
from demiurge.values import canonical_json, cbor
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.values.projection import Only
from demiurge.values.refs import Ref
from demiurge.wire.items import ToolChoice
from demiurge.world.host import Accepted
from demiurge.world.retention.archive import KEEP_S as ARCHIVE_S
from demiurge.world.retention.archive import Archiving
from demiurge.world.retention.erasure import Erasure
from demiurge.world.retention.garbage import KEEP_S, Garbage
from demiurge.world.sealing import Sealing
from demiurge.world.unit import Unit

__all__ = ["World"]

KEEP_DAYS, ARCHIVE_DAYS = KEEP_S / 86400, ARCHIVE_S / 86400


class World(OpenedWorld):
    """A durable agent. Use it from one event loop, as `async with World.open(path) as world`; in a notebook as
    `world = await World.open(path)`."""

    async def refresh_tools(self) -> bool:
        """Lists the world's tool sources again and puts their tools in force: in the catalog at once, in each unit at
        its next event, where a `manifest` record says so. Returns whether a spec differs.

        A call that was proposed for a tool that has changed or gone is not run (`unavailable`; `approval_expired` where
        a person was asked). Raises PromptValidationError (two tools with one id), Unavailable (`tools_unlisted`),
        Conflict (`owned`, `calls_running`: see `set_manifest`); then nothing has changed."""
        return await self.opening.source.refresh(self.opening.replacing(self.backend))

    async def submit(
        self, schema: str, value: Any, key: str | None = None, idempotency_key: str | None = None
    ) -> Accepted:
        """Takes an event in; durable on return. The same `idempotency_key` again answers with the first event.

        Raises InvalidValue, NotFound (schema, or a blob it names), UsageError (unroutable, or a key that is empty or no
        text), Conflict (`key_taken`: the key is another event's), Unavailable."""
        return await self.backend.run.submit(schema, value, key, idempotency_key)

    async def settle(self, unit: str | Unit | None = None, on_frame: OnFrame | None = None) -> None:
        """Waits until the unit (None: every unit) has settled: only a person's decision or a timer can continue its
        work. `on_frame` is called with the frames of running effects; frames are not stored."""
        await settle(self.backend, str(unit) if unit is not None else None, on_frame)

    def watch(self, unit: str | Unit | None = None, after: Iterable[Shown] = ()) -> Frames:
        """Yields what effects show while they run, in a unit or in all: `{unit, intent, attempt, offset, type, ...}`.

        First come the frames that running effects have shown so far, then new ones, without gap or duplicate, also when
        the process that owns the world ends and another takes over. Types are those of `tools.events` and: `began`
        (`kind`), the first of each attempt, which makes void what earlier attempts of its intent showed; `closed`
        (`seq`): the receipt is record `seq` of the unit, and durable; `lagged`: frames were left out because they were
        not taken in time, so look at the records. For a caller who sees records, `closed` of a call has `content`, what
        the model was told, and `value`, the whole value (docs/watching.md).

        `after`: frames that were taken before, of which nothing is shown again; the last one of each intent will do.
        Nothing is started by watching. Ends when the world is closed. Raises InvalidValue for a unit or frames that are
        none."""
        return self.backend.run.watch(str(unit) if unit is not None else None, list(after))

    async def state(
        self, module: str, key: str | None = None, at: int | None = None, *, only: Only = "all"
    ) -> Mapping[str, Any] | None:
        """Returns a cell as JSON-ready data, None if there is none; with `at` as it was at that journal position.
        Without a key it is the one cell of the module, None if the module has several.

        `only` names the part to read, and the cost is that of the part: `only={"title": "all", "messages": (-2, None)}`
        is the title and the last two messages; `"length"` in place of a range is how many there are. Raises NotFound
        for an unknown module, and for a position that the journal does not reach; InvalidValue (`bad_part`) where the
        cell has no such part."""
        found = await self.backend.read.state(module, key or "", at, only)
        if found is None and key is None and len(keys := await self.keys(module)) == 1:
            return await self.backend.read.state(module, keys[0], at, only)
        return found

    async def keys(self, module: str) -> list[str]:
        """Returns the keys of a module's units."""
        return await self.backend.read.keys(module)

    def lost(self) -> list[str]:
        """Returns a sentence for each loss in the files of this world: it names the file and says what to do."""
        return self.backend.read.lost()

    async def cost(self, by: CostTable | None = None, *, chat: str | None = None, days: int = DAYS) -> WorldCost:
        """Returns what the answers of the last `days` cost, in all chats or in one (docs/costs.md). Raises NotFound
        (`chat_unknown`), UsageError (`role_missing`), Unavailable for records in an archive that is away."""
        return WorldCost(await cost_with_budgets(self.backend, today(), days, chat), by)

    async def replay(self, check: bool = True) -> dict[str, Any]:
        """Computes every unit again from what came in, and compares every derived record: `{units, records, ok}`, and
        `unchecked` if records could not be for want of what was erased. Where the two differ it raises Divergence or
        Damaged, naming the record; without `check` it says so in place of that: `{ok: False, error: {code,
        message}}`."""
        try:
            return await self.backend.keep.replay()
        except (Damaged, Divergence) as problem:
            if check:
                raise
            return {"ok": False, "error": {"code": problem.code, "message": problem.message}}

    async def fork(self, path: str | os.PathLike[str], at: int | None = None) -> Fork:
        """Makes a new world in `path`, an empty folder or none yet, that has this one's past up to position `at` (None:
        now) and goes its own way from there. `World.open` takes what this returns.

        A position inside a step stands for the step's end. What was open there, calls that wait for a person among it,
        ends in the fork as `unknown_outcome`; nothing runs twice, and this world stays as it is. Raises Conflict
        (`exists`: something is in `path`), NotFound (no such position), Damaged, Divergence, Unavailable."""
        folder = absolute(path)
        return Fork(folder, **asdict(await self.backend.keep.fork(str(folder), at)))

    async def gc(self, keep_days: float = KEEP_DAYS, *, dry_run: bool = False) -> Garbage:
        """Removes blobs that nothing refers to and snapshots that newer ones replace, except those of the last
        `keep_days` (at least an hour). With `dry_run` it only returns what it would remove. Raises UsageError, Conflict
        (`collecting`), Damaged (and nothing was removed), Unavailable."""
        return await self.backend.keep.gc(keep_days, dry_run)

    async def erase(self, ref: str, why: str, *, dry_run: bool = False) -> Erasure:
        """Removes the bytes of a blob and of its copies for good, and records the erasure with its reason `why`. With
        `dry_run` it only returns what it would remove. The result is not `done` while something that can't be erased
        contains the words: `inline` names it. Raises InvalidValue, NotFound, UsageError (`needed`: a node or code of
        the world), Conflict (`busy`), Damaged, Divergence, Unavailable (`erase` again finishes it)."""
        erasure = await self.backend.keep.erase([ref], why, [], dry_run)
        if not dry_run:
            self.sessions.forget(map(Unit.parse, erasure.sessions))
        return erasure

    async def archive(
        self, keep_days: float = ARCHIVE_DAYS, *, before: int | None = None, dry_run: bool = False
    ) -> Archiving:
        """Moves the bytes of records older than `keep_days`, or with a position below `before`, to compressed files in
        the world's folder, from which they are read as before. With `dry_run` it only returns what it would move.
        Raises UsageError, Conflict (`archiving`), Damaged, Unavailable: then the next call goes on."""
        return await self.backend.keep.archive(before, keep_days, dry_run)

    async def approvals(self, unit: Unit | None = None) -> list[dict[str, Any]]:
        """Returns the calls that wait for a person, in `unit` or anywhere: `{id, unit, tool, tool_call_id,
        arguments_json, damaged, asks, expires_ns, ...}`. `arguments_json` are the exact arguments. `damaged` is None,
        or says what can't be read; then `arguments_json` may be None, and `id` too if a whole unit can't be read.
        `asks` is None, or for a question of the model `{question, choices, allow_other}`; `input` is None, or for
        questions of a tool `{tool, server, leg, questions: [{key, kind, message, url, host, fields}]}`."""
        found = await self.backend.read.approvals(str(unit) if unit is not None else None)
        return ShownRows(found, "Calls that wait", ("id", "unit", "tool", "arguments_json"))

    async def decide(
        self, approval_id: str, *, approve: bool, reason: str = "", arguments_json: str | None = None
    ) -> None:
        """Decides a waiting call; `reason` goes to the model if it is rejected. With `arguments_json` it runs with
        these arguments. Raises NotFound, InvalidValue, Conflict (`decided`: `details`)."""
        await self.backend.run.decide(approval_id, approve, reason, arguments_json)

    async def answer(
        self,
        approval_id: str,
        text: str | None = None,
        *,
        content: Mapping[str, Any] | None = None,
        action: Action = "accept",
    ) -> None:
        """Answers a question that waits: of the model, or a tool's without a form, with a text; a tool's form with
        `content`, the value of each field. To several questions of a tool, `content` has one content for each key.
        `action` declines or cancels them. Raises as `decide`; InvalidValue (`bad_answer`), UsageError."""
        given = {"action": action, **({"content": dict(content)} if content is not None else {})}
        await self.backend.run.answer(approval_id, text, given if text is None else None)

    async def doubts(self, *, settled: bool = False) -> list[dict[str, Any]]:
        """Returns the effects of unknown outcome, oldest first: `{id, unit, kind, tool, tool_call_id,
        arguments_json, code, message, actor, at_ns, ledger, equal, settled}`.

        `ledger` is the state of the entry that equal calls find (`claimed`, `in_doubt`, `done`; None: no entry),
        `equal` names the doubts that are settled with this one. With `settled` also those that a person has settled:
        `settled` is then `{done, reason, by, at_ns, result_ref}`. An entry of the ledger that no record accounts for
        has no `unit`. An effect that a process began, and that was not ended when the process was killed, has the code
        `begun` until its unit goes on. Raises Damaged, Unavailable."""
        found = await self.backend.read.doubts(settled)
        return ShownRows(
            found, "Effects of unknown outcome", ("id", "unit", "tool", "arguments_json", "code", "message")
        )

    async def settle_doubt(self, doubt_id: str, *, done: bool, reason: str, result: Any = None) -> dict[str, Any]:
        """Records what a person found out about a doubt; nothing runs. Returns the doubt as `doubts` does.

        The decision is journaled with its actor, `reason` (1 to 2000 characters) and time, and the model of a chat is
        told at its next turn. With `done` the ledger answers equal calls with `result`, JSON-ready data (None: a
        success without a value); without `done` it forgets its entry, so that an equal call may run. A doubt is settled
        once: the same decision again changes nothing. Raises NotFound (no such doubt; `tool_missing`), Conflict
        (`settled`: otherwise; `known`: the ledger has an answer; `running`), InvalidValue, UsageError, Damaged,
        Unavailable."""
        result_json = canonical_json.encode(result).decode() if result is not None else None
        return await self.backend.run.settle_doubt(doubt_id, done, reason, result_json)

    async def call(
        self,
        tool: str,
        arguments: str | Mapping[str, Any],
        call_id: str | None = None,
        *,
        connection_id: str | None = None,
        on_frame: OnFrame | None = None,
    ) -> CallOutcome:
        """Calls a tool without a chat: under the same policies, limits and approvals, recorded in a unit of its own.

        `arguments` are a mapping of JSON values, or JSON text. A call id that was given before answers with what came
        of that call. `connection_id`: the connection for a tool that needs one; only a `user` names one.

        Raises InvalidValue, Conflict (`exists`: another call has this id; `revoked`), NotFound, Unavailable."""
        return await call_tool(self.backend, tool, as_json_text(arguments), call_id, on_frame, connection_id)

    async def tools_ref(
        self,
        *tools: str,
        provider: str | None = None,
        tool_choice: ToolChoice | None = None,
        strict: bool = False,
    ) -> Ref:
        """Stores a toolset of these tools (none named: all that a model may see) and returns its address, for
        `tools_ref` of a `demiurge/UserMessage@1`, or of `Chat.send`. It is worded for `provider` (default: this
        world's). `strict` asks the provider to keep calls to the tools' schemas (docs/worlds.md).

        Raises InvalidValue (`bad_tool_id`, `policy_denied`, `bad_tool_choice`, `bad_toolset`), NotFound (`no_tool`),
        UsageError."""
        return await store_toolset(self.backend, tools, provider or self.choice.provider, tool_choice, strict=strict)

    async def seal(self, alias: str, value: Secret) -> Ref:
        """Stores `value` sealed for `alias`, as `vault.put` takes it: in this world, for that name, this user's vault
        opens it. Raises InvalidValue, Unavailable (no vault)."""
        sealing = Sealing(open_vault(self.opening.options.environment), (await self.backend.read.info())["world_id"])
        return self.blobs.put(sealing.seal(alias, value, SystemEntropy().token(16)))

    def manifest(self) -> dict[str, Any]:
        """Returns the manifest in force: `{root, definitions, sources, tool_policy, toolset}`. Until something runs in
        the owner, it is the manifest that will be in force then."""
        manifest: dict[str, Any] = cbor.decode(self.backend.read.manifest())
        return manifest

    def manifest_log(self) -> list[dict[str, Any]]:
        """Returns every change of the manifest in force, oldest first: `{seq, at_ns, caller, how, manifest, old,
        changed}`.

        `how` is `opened with`, `manifest set`, `policy set`, `policy observed`, `policy enforced`, `settings set` or
        `tools refreshed`; `changed` names the parts (`code`, `definitions`, `hosts`, `observing`, `policy`, `prompt`,
        `settings`, `tools`), and is None for the first one. Empty until the first event."""
        return self.backend.read.manifest_log()

    async def set_manifest(self, folder: str | os.PathLike[str]) -> None:
        """Gives the world the manifest in the JSON files of `folder`; each unit takes it at its next event. An owner
        that lacks code which this process has hands the world over to it. Raises BadManifest, Unavailable, Conflict
        (`no_code`: code is missing; `calls_running`: a call keeps the owner there); then nothing has changed."""
        await self.opening.set_definitions(self.backend, read_definitions(folder))

    async def set_policy(self, policy: ToolPolicy) -> None:
        """Puts another tool policy in force, also when another process owns the world, until the world is closed; each
        unit takes it at its next event. The process that opens the world next names its own. Raises UsageError
        (`bad_policy`), Unavailable."""
        require_policy(policy)
        await self.backend.keep.replace_manifest(ManifestChange(POLICY_SET, policy=policy))

    async def set_chat_settings(
        self, *, system_prompt: str | None = None, evidence: Evidence | None = None, titles: Titles | None = None
    ) -> None:
        """Puts a system prompt of 1 to 32,768 characters, what becomes of answers whose evidence does not hold ("off",
        "mark", "retry", "refuse"), or whether models propose titles ("auto", "always", "off"), in force for all chats,
        also when another process owns the world, until the world is closed; each chat takes it at its next event. None
        changes nothing. Raises InvalidValue, UsageError (`no_chats`, `role_missing`), Unavailable."""
        given = {"evidence": evidence, "titles": titles}
        settings = {name: value for name, value in given.items() if value is not None}
        prompt = checked_system_prompt(system_prompt) if system_prompt is not None else None
        if settings or prompt is not None:
            change = ManifestChange(SETTINGS_SET, settings=settings, system_prompt=prompt)
            await self.backend.keep.replace_manifest(change)

    async def system_prompt(self) -> SystemPrompt | None:
        """Returns what the model of each chat is told first, who put it in force and when; None in a world without
        chats."""
        return await asyncio.to_thread(system_prompt_of, self.backend)

    async def observe_policy(self, until: datetime | None) -> str | None:
        """Has the tool policy's denials and required approvals of trusted MCP tools recorded and not enforced, up to
        `until`, at most 30 days ahead; None enforces them now (docs/policy.md). Returns a sentence if the end can't be
        remembered: then it holds until the world is closed.

        Raises InvalidValue (`bad_end`: no time with a zone, or not in that span), UsageError, Unavailable."""
        until_ns = 0 if until is None else _wall_ns(until)
        check_end(until_ns, self.opening.options.clock.now_ns())
        how = OBSERVED if until_ns else ENFORCED
        await self.backend.keep.replace_manifest(ManifestChange(how, observe_until_ns=until_ns))
        options = self.opening.options
        return await asyncio.to_thread(keep_end, options.environment, options.folder, until_ns)

    async def observing(self, days: int = 30) -> Observing:
        """Returns whether the tool policy is only observed now, and the calls of the last `days` that it would have
        decided otherwise."""
        return await observing(self.backend, self.opening.options.clock.now_ns(), days)

    async def policy_suggestion(self, *, chat: str | None = None, days: int | None = None) -> PolicySuggestion:
        """Returns a tool policy drafted from the calls of the last `days` (None: all), in all chats or in one, with the
        text of its file (docs/policy.md). Nothing runs and nothing is written. Raises NotFound (`no_chat`)."""
        return await suggest_policy(self.backend, chat, days)

    def replay_risks(self) -> list[dict[str, Any]]:
        """Returns the places at which the code of the reducers may differ at a replay, `{module, line, name, why}`: a
        warning and no proof; `replay(check=True)` finds out."""
        return self.backend.read.replay_risks()

    async def info(self) -> dict[str, Any]:
        """Returns `{world_id, manifest, settings, catalog, tools, notices, missing, origin, own_manifest, adopted,
        unfit, system_prompt}`: `tools` names all that this process can run, `catalog` is what the policy lets a model
        see; `missing` are modules whose code is not here, `origin` is the `{world_id, position}` of the fork's source,
        `own_manifest` the hash of the definitions that the world keeps, None for the shipped app's, `adopted` says
        whether the user accepted them here, and `unfit` why they do not fit this program's app, which they extend.
        `system_prompt` has the fields of `SystemPrompt`, or is None."""
        prompt = await self.system_prompt()
        return {**await self.backend.read.info(), "system_prompt": asdict(prompt) if prompt is not None else None}

    async def chats(self, *, archived: bool = False) -> list[ChatSummary]:
        """Returns the chats, the most recently active first: those in the archive, or those that are not. Reads each
        chat's standing and title, and no message."""
        return [chat async for chat in each_chat(self.backend, archived=archived)]

    async def import_chat(self, document: Mapping[str, Any], chat_id: str | None = None) -> Chat:
        """Makes a new chat with the history of an exported one (`ChatExport.to_json`), and returns it. The history is
        shown and told to the model, marked as imported; nothing of it counts as a call or a turn (docs/chats.md).

        `chat_id`: of the new chat; None: one is made. Raises InvalidValue (`bad_export`, `bad_attachment`,
        `older_definitions`), Conflict (`exists`: there is a chat with this id), UsageError (`role_missing`)."""
        exported = read_export(document)
        chat = self.chat(chat_id if chat_id is not None else new_id("chat", SystemEntropy()))
        if await chat.state() is not None:
            raise Conflict(f"There is a chat {chat.id} already; choose another id.", code="exists")
        history = await asyncio.to_thread(stored_history, exported, self.backend.run.put_blob)
        await chat.create(exported.title)
        await chat.take_history(history, exported.first_message_at_ms)
        return chat

    def chat(self, chat_id: str = "main") -> Chat:
        """Returns the chat with this id; its first message creates it. Raises InvalidValue if the id is no text."""
        if not isinstance(chat_id, str) or not chat_id:
            raise InvalidValue(f"a chat's id is a text of at least one character, not {chat_id!r}", path="chat_id")
        return Chat(self.backend, chat_id, self.choice, self.sessions)


def _wall_ns(time: object) -> int:
    """Returns a time in nanoseconds of wall time. Raises InvalidValue for anything but a datetime with a zone."""
    if not isinstance(time, datetime):
        what = f"must be a datetime with a time zone, not {time!r}; for a length of time add a timedelta to now"
        raise InvalidValue(what, path="until", code="bad_end")
    if time.tzinfo is None:
        raise InvalidValue("The end of observing needs a time zone.", path="until", code="bad_end")
    return int(time.timestamp()) * 10**9
