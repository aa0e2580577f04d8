"""The calls that read, in the process that owns the world."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

from demiurge.bootstrap.backend import mcp_servers, review, standing_rules, webhooks
from demiurge.bootstrap.backend.budget_use import BudgetUse, unit_budgets
from demiurge.bootstrap.backend.calls import Frames
from demiurge.bootstrap.backend.layer_sync import LayerStatus
from demiurge.bootstrap.backend.mcp_views import McpServerView
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.prompt_catalog import has_prompt_catalog
from demiurge.bootstrap.backend.review_views import CatalogTool, IssueView, ToolProposalView, ToolVersion
from demiurge.bootstrap.backend.waiting_calls import waiting_calls
from demiurge.bootstrap.backend.webhooks import Webhook
from demiurge.bootstrap.backend.world_connections import WorldConnection, listed, named
from demiurge.bootstrap.chat_fields import lacking_fields
from demiurge.bootstrap.manifest_change import changed_parts
from demiurge.bootstrap.trust.world_profile import MOVED, recall
from demiurge.errors import Damaged, DemiurgeError, InvalidValue, NotFound
from demiurge.stores.protocol import Head, Row
from demiurge.tools.catalog import ToolCatalog
from demiurge.tools.policy import ToolPolicyContext
from demiurge.values.caller import Caller
from demiurge.values.projection import Only
from demiurge.world.authority.observing import policy_at
from demiurge.world.cell import Cell
from demiurge.world.history.replay import Manifests
from demiurge.world.history.seal import Seal
from demiurge.world.host.loader import Loader
from demiurge.world.manifest import Manifest
from demiurge.world.manifest.lint import replay_risks
from demiurge.world.manifest_log import manifest_entries
from demiurge.world.moment import length_at, moment
from demiurge.world.origin import origins
from demiurge.world.record import decode_row
from demiurge.world.unit import Unit

__all__ = ["Reading"]

ANSWER_BYTES: Final = 4 << 20
"""The most bytes of blobs that one answer holds."""


class Reading:
    """`calls.ReadCalls` of one caller. Which caller may make which call is decided before (`operations.guarded`). What
    an answer shows is decided by `visibility`."""

    def __init__(self, owner: Owner, caller: Caller) -> None:
        self._owner, self._caller = owner, caller
        self._sight = owner.visibility(caller)

    async def state(self, module: str, key: str, at: int | None = None, only: Only = "all") -> dict[str, Any] | None:
        only = self._sight.part(module, only)
        if at is not None:
            then = await asyncio.to_thread(self._state_at, Unit(module, key), at, only)
            return self._sight.cell(module, then)
        owner = self._owner
        now = _view(owner.manifest, module, owner.reader().state(Unit(module, key)).cell, only)
        return self._sight.cell(module, now)

    def _state_at(self, unit: Unit, at: int, only: Only) -> dict[str, Any] | None:
        """Returns a cell as it was, seen under the manifest that it was made under."""
        owner = self._owner
        length = length_at(owner.store, str(unit), moment(owner.store, at))
        manifests = Manifests(owner.manifest, owner.store.get_blob, owner.kept_code)
        state = Loader(owner.store, manifests, []).load(unit, length).state
        manifest = owner.manifest if state.manifest is None else manifests[state.manifest]
        return _view(manifest, unit.module, state.cell, only)

    def appends(self) -> Frames:
        return self._owner.appends.follow()

    async def keys(self, module: str) -> list[str]:
        return [Unit.parse(head.unit).key for head in self._owner.store.heads(f"{module}/")]

    async def approvals(self, of: str | None = None) -> list[dict[str, Any]]:
        calls = named(self._waiting_calls(of), self._owner.reader(), self._owner.source)
        return [self._sight.waiting_call(call) for call in calls]

    async def waiting_units(self, of: str | None = None) -> list[str]:
        return sorted({call["unit"] for call in self._waiting_calls(of)})

    def _waiting_calls(self, of: str | None) -> list[dict[str, Any]]:
        owner, unit = self._owner, Unit.parse(of) if of is not None else None
        return waiting_calls(owner.reader(), owner.store, unit, owner.clock.now_ns())

    async def standing_rules(self, of: str | None = None) -> list[dict[str, Any]]:
        rules = standing_rules.listed(self._owner.reader(), self._owner, of)
        return [self._sight.standing_rule(rule) for rule in rules]

    async def doubts(self, settled: bool = False) -> list[dict[str, Any]]:
        begun = await self.begun()
        here = {doubt["id"] for doubt in begun}
        found = await asyncio.to_thread(self._owner.doubts.found, settled=settled)
        return [doubt for doubt in found if doubt["id"] not in here] + begun

    async def begun(self, of: str | None = None) -> list[dict[str, Any]]:
        unit = Unit.parse(of) if of is not None else None
        return self._owner.doubts.begun(self._owner.reader_of_effects(), unit)

    async def connections(self) -> list[WorldConnection]:
        owner = self._owner
        return listed(owner.reader(), owner.store, owner.clock.now_ns())

    async def tool_files(self) -> list[LayerStatus]:
        return await self._owner.tool_files(self._owner.reader()).look()

    async def webhooks(self) -> list[Webhook]:
        return webhooks.listed(self._owner.reader(), self._owner.store)

    async def mcp_servers(self) -> list[McpServerView]:
        return mcp_servers.listed(self._owner)

    async def mcp_server(self, name: str) -> McpServerView:
        return mcp_servers.named(self._owner, name)

    async def prompt_tools(self) -> list[CatalogTool]:
        return review.catalog(self._owner.reader(), self._owner.store)

    async def damaged_prompt_tools(self) -> list[str]:
        return review.damaged(self._owner.reader(), self._owner.store)

    async def tool_versions(self, tool: str | None = None) -> list[ToolVersion]:
        return review.versions(self._owner.reader(), tool)

    async def approved_document(self, ref: str) -> dict[str, Any]:
        return review.approved_document(self._owner.reader(), self._owner.store, self._owner.review_lists, ref)

    async def proposals(self, state: str | None = None, tool: str | None = None) -> list[ToolProposalView]:
        owner = self._owner
        now_ns = owner.clock.now_ns()
        return review.proposals(owner.reader(), owner.store, owner.review_lists, now_ns, state, tool)

    async def proposal(self, proposal_id: str) -> ToolProposalView:
        owner = self._owner
        return review.proposal(owner.reader(), owner.store, owner.clock.now_ns(), proposal_id)

    async def issues(self) -> list[IssueView]:
        return review.issues(self._owner.reader(), self._owner.store, self._owner.review_lists)

    async def issue(self, issue_id: str) -> IssueView:
        return review.issue(self._owner.reader(), self._owner.store, issue_id)

    async def info(self) -> dict[str, Any]:
        owner = self._owner
        async with owner.changing:  # the log of manifests may name one that is not in force yet
            pass
        caller = ToolPolicyContext.of(self._caller)
        policy = policy_at(owner.manifest, owner.clock.now_ns())
        catalog, items = (
            ToolCatalog.compile(owner.source, policy, approvals_bound=True, ctx=caller, mcp_items=each)
            for each in (False, True)
        )
        known = origins(owner.store)
        lacking = lacking_fields(owner.manifest.schemas)
        return {
            "world_id": owner.store.world_id,
            "manifest": owner.manifest.ref,
            "settings": dict(owner.manifest.settings),
            "observe_until_ns": owner.manifest.observe_until_ns,
            "max_result_bytes": owner.manifest.tool_policy.budgets.max_result_bytes,
            "catalog": [{**spec.to_json(), "spec_hash": spec.spec_hash} for spec in catalog.specs()],
            "mcp_items": [spec.to_json() for spec in items.specs()],
            "tools": [spec.name for spec in owner.source.specs()],
            "notices": [*owner.notices, *(owner.running.notices if owner.running else ())],
            "missing": list(owner.in_force.missing),
            "origin": {"world_id": known[-1].world, "position": known[-1].until} if known else None,
            "own_manifest": owner.in_force.own,
            "adopted": owner.in_force.adopted,
            "unfit": owner.in_force.unfit.message if owner.in_force.unfit is not None else None,
            "lacking": lacking,
            "prompt_catalog": has_prompt_catalog(owner.reader(), lacking),
        }

    async def budgets(self, units: Sequence[str]) -> dict[str, list[BudgetUse]]:
        owner, host = self._owner, self._owner.reader()
        now_ns = owner.clock.now_ns()
        found = {
            name: unit_budgets(owner.store, owner.manifest, host.state(Unit.parse(name)), now_ns) for name in units
        }
        return {name: uses for name, uses in found.items() if uses}

    def manifest(self) -> bytes:
        return self._owner.manifest.node

    def manifest_log(self) -> list[dict[str, Any]]:
        store, found = self._owner.store, []
        for entry in manifest_entries(store):
            changed: list[str] | None = None
            with suppress(NotFound, Damaged):  # of an entry without a former one, too
                changed = changed_parts(store.get_blob(entry.old), store.get_blob(entry.ref)) if entry.old else None
            found.append(
                {
                    "seq": entry.seq,
                    "at_ns": entry.at_ns,
                    "caller": {**asdict(entry.caller), "roles": list(entry.caller.roles)},
                    "how": entry.how,
                    "manifest": entry.ref,
                    "old": entry.old,
                    "changed": changed,
                }
            )
        return found

    def replay_risks(self) -> list[dict[str, Any]]:
        reducers = sorted(self._owner.manifest.reducers.items())
        return [{"module": name, **risk._asdict()} for name, code in reducers for risk in replay_risks(code.source)]

    def get_blob(self, ref: str) -> bytes:
        return self._sight.blob(ref)

    def get_blobs(self, refs: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        left = ANSWER_BYTES
        for ref in refs:
            with suppress(DemiurgeError):
                data = self._sight.blob(ref)
                left -= len(data)
                if left < 0:
                    break
                found[ref] = data
        return found

    def message(self, ref: str) -> dict[str, Any]:
        return self._sight.message(ref)

    def records(self, unit: str | None, start: int, limit: int) -> list[dict[str, Any]]:
        return [self._sight.record(decode_row(row)) for row in self._rows(unit, start, limit)]

    def rows(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        return [(row.position, row.data) for row in self._rows(unit, start, limit)]

    def _rows(self, unit: str | None, start: int, limit: int) -> Iterator[Row]:
        store = self._owner.store
        return islice(store.read_all(start) if unit is None else store.read(unit, start), limit)

    def attempts(self, intents: Sequence[str]) -> dict[str, int]:
        try:
            wanted = [bytes.fromhex(intent) for intent in intents]
        except ValueError:
            raise InvalidValue("An intent's id is hexadecimal.", code="bad_id") from None
        found = self._owner.store.attempts(wanted)
        return {intent.hex(): attempt.started_ns for intent, attempt in found.items()}

    def heads(self, prefix: str = "", limit: int | None = None) -> list[Head]:
        return list(islice(self._owner.store.heads(prefix), limit))

    def archives(self) -> list[dict[str, Any]]:
        return [
            {
                "first": segment.first,
                "last": segment.last,
                "records": segment.last - segment.first + 1,
                "bytes": segment.size,
                "packed": segment.packed,
                "seal": str(Seal(segment.last, segment.root)),
                "file": str(segment.path),
                "here": segment.here,
            }
            for segment in self._owner.store.archives.segments()
        ]

    def lost(self) -> list[str]:
        adoption = self._owner.adoption
        found = [*self._owner.lost(), *self._owner.digest_key.lost()]
        try:
            recall(adoption.environment, adoption.folder)
        except DemiurgeError as error:
            return found if error.code == MOVED else [*found, error.message]
        return found


def _view(manifest: Manifest, module: str, cell: Cell | None, only: Only) -> dict[str, Any] | None:
    found = manifest.modules.get(module)
    if found is None:
        known = ", ".join(sorted(manifest.modules))
        raise NotFound(f"There is no module {module}; there are {known}.", code="unknown_module")
    view: dict[str, Any] | None = None
    if cell is not None:
        view = manifest.schemas.validator(found.state).part_to_json(cell, only)
    return view
