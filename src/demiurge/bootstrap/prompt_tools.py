"""`world.prompt_tools`: the catalog of prompt tools, and the proposals that change it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.chiefs import chief_model
from demiurge.bootstrap.backend.layer_sync import ExportedTools, LayerStatus
from demiurge.bootstrap.backend.review_views import CATALOG_FACTS, CatalogTool, ToolProposalView, ToolVersion
from demiurge.bootstrap.model_run_outcome import require_done
from demiurge.bootstrap.models import Choice
from demiurge.errors import Conflict, Damaged, InvalidValue, NotFound
from demiurge.models.providers import provider as provider_row
from demiurge.registry.core_ids import core_id_of, require_unlocked
from demiurge.registry.prompt_tool import FIELDS, PromptTool
from demiurge.registry.proposal import TARGETS, read_proposal
from demiurge.registry.tool_copy import copy_of
from demiurge.registry.tool_diff import FieldDiff, tool_diff
from demiurge.values.clock import SystemEntropy
from demiurge.world.review.model_run_unit import CASES, MODEL_RUN_ASK, REVIEW
from demiurge.world.review.proposal_unit import (
    PROPOSAL_CHECK,
    PROPOSAL_DECIDE,
    PROPOSAL_REVIEW,
    PROPOSAL_REVISE,
    PROPOSAL_SKIP,
    PROPOSAL_SUBMIT,
    PROPOSAL_VERDICT,
    PROPOSAL_WITHDRAW,
)

__all__ = ["PromptToolRegistry"]


@dataclass(frozen=True, slots=True)
class PromptToolRegistry:
    """The prompt tools of the world behind `backend`. See docs/prompt-tools.md for who may do what.

    The methods that change something take the `digest` of the proposal that the caller has read, and raise Conflict
    (`other_digest`) if it was revised since. They raise UsageError (`role_missing`, `core_tool_locked`), NotFound
    (`no_proposal`, `no_tool`), Conflict (`wrong_state`, `not_reviewed`, `chief_present`, `not_checked`,
    `checks_failed`, `verdict_missing`), InvalidValue (`invalid_proposal`, `id_is_callable`, `reason_missing`,
    `not_read`), Unavailable."""

    backend: Backend = field(repr=False)
    choice: Choice

    async def catalog(self) -> list[CatalogTool]:
        """Returns the tools of the catalog: the core tools, then the approved ones by id."""
        return await self.backend.read.prompt_tools()

    async def damaged(self) -> list[str]:
        """Returns a sentence for each approved tool that is not in the catalog because its text was erased or is
        damaged."""
        return await self.backend.read.damaged_prompt_tools()

    async def show(self, tool_id: str) -> CatalogTool:
        """Returns a tool of the catalog. Any spelling of a core id is taken. Raises NotFound (`no_tool`)."""
        wanted = core_id_of(tool_id) or tool_id
        found = next((tool for tool in await self.catalog() if tool.id == wanted), None)
        if found is None:
            raise NotFound(f"There is no prompt tool {tool_id}; `demiurge tools ls` lists them.", code="no_tool")
        return found

    async def propose(self, given: Mapping[str, Any], revises: str | None = None) -> ToolProposalView:
        """Submits a proposal, or a revision of the proposal `revises`. `given`: the proposal as a file holds it. A tool
        of the catalog as `GET /api/prompt-tools/{id}` answers it, whole, may be changed and sent: its `digest` is the
        `baseHash` of a change, its `layer` the `target`, and its other facts say nothing. A change names the version
        that its author has read; fields that are missing are those of that version."""
        text = read_proposal(await self._completed(given)).encode().decode()
        if revises is not None:
            return await self._sent(PROPOSAL_REVISE, revises, {}, text)
        return await self._sent(PROPOSAL_SUBMIT, f"p{SystemEntropy().token(5).hex()}", {}, text)

    async def _completed(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns a proposal without the facts of a tool that was read, and with the fields of the version that it
        changes."""
        was_read = given.keys() >= CATALOG_FACTS
        body = {name: value for name, value in given.items() if not (was_read and name in (*CATALOG_FACTS, "kind"))}
        if was_read and given["layer"] in TARGETS:
            body.setdefault("target", given["layer"])
        if given.get("proposalType") not in ("modify", "delete") or not isinstance(given.get("id"), str):
            return body
        require_unlocked(given["id"])
        if was_read:
            body.setdefault("baseHash", given["digest"])
        base = body.get("baseHash")
        record: Mapping[str, Any] = {}
        if isinstance(base, str):
            with suppress(NotFound, Damaged):  # then the proposal has to have all fields itself
                record = await self._approved(base)
        return {**record, **body}

    async def _live_digest(self, tool_id: str, layer: str) -> str | None:
        """Returns the digest of the live tool of a layer, None if the layer has none with this id."""
        found = await self.backend.read.tool_versions(tool_id)
        return next((version.digest for version in found if version.layer == layer and version.is_live), None)

    async def proposals(self, state: str | None = None, tool: str | None = None) -> list[ToolProposalView]:
        """Returns the proposals in this state (None: in any) for this tool, newest first, without their bodies."""
        return await self.backend.read.proposals(state, tool)

    async def proposal(self, proposal_id: str) -> ToolProposalView:
        """Returns a proposal, with its body and the report of its checks. Each is None if it was erased."""
        return await self.backend.read.proposal(proposal_id)

    async def review(
        self,
        proposal_id: str,
        digest: str,
        recommend: str,
        *,
        sensible: str,
        overlaps: str,
        violates: str,
        changes: str,
        notes: str = "",
    ) -> ToolProposalView:
        """Records the review of the Chief of Staff: the answers to the four questions, and a recommendation: approve,
        modify or reject. Takes the role `chief`."""
        answers = {"sensible": sensible, "overlaps": overlaps, "violates": violates, "changes": changes}
        value = {"digest": digest, "recommend": recommend, **answers, "notes": notes}
        return await self._sent(PROPOSAL_REVIEW, proposal_id, value)

    async def skip_review(self, proposal_id: str, digest: str, reason: str) -> ToolProposalView:
        """Goes on without a review of the Chief of Staff: the user acts as both, which is recorded. Takes the role
        `user`. Raises Conflict (`chief_present`) if the world has a Chief of Staff."""
        return await self._sent(PROPOSAL_SKIP, proposal_id, {"digest": digest, "reason": reason})

    async def ask_model(
        self, proposal_id: str, digest: str, provider: str | None = None, model: str | None = None
    ) -> ToolProposalView:
        """Asks a model to review the proposal in the place of the Chief of Staff, and waits for the answer. Its review
        is advice: a user decides. It counts as the Chief's where the manifest's setting `chief` names this model, or
        where there is no Chief of Staff. `provider`, `model`: those of that setting by default, else the world's. Takes
        the role `user` or `chief`.

        Raises Conflict if nothing came of the run (`budget_exceeded`, `busy`, `reviewed`: a person has reviewed the
        revision), Unavailable with the code of the provider's error, InvalidValue if the answer is no review
        (`bad_answer`, `answer_too_long`), UsageError (`older_definitions`)."""
        view = await self._model_run({"kind": REVIEW, "cases": []}, proposal_id, digest, provider, model)
        if view.review is None or (view.review["kind"], view.review["digest"]) != ("model", digest):
            changed = "The proposal was changed or decided on while the model read it, so its review was not taken."
            raise Conflict(changed, code="wrong_state" if view.digest == digest else "other_digest")
        return view

    async def try_cases(
        self, proposal_id: str, digest: str, provider: str | None = None, model: str | None = None
    ) -> ToolProposalView:
        """Tries the automatic test cases of a proposal on a model, one after the other, and waits for the last. What
        came of them is in `model_runs["cases"]`, while they run too; it is advice, and no approval needs it. Takes the
        role `user` or `chief`. Raises as `ask_model`, and InvalidValue (`no_case`: there is none to try)."""
        body = _body(await self.proposal(proposal_id))
        cases = [case["id"] for case in body.get("testCases", ()) if case.get("reply") is not None]
        return await self._model_run({"kind": CASES, "cases": cases}, proposal_id, digest, provider, model)

    async def _model_run(
        self, run: Mapping[str, Any], proposal_id: str, digest: str, provider: str | None, model: str | None
    ) -> ToolProposalView:
        chief = chief_model((await self.proposal(proposal_id)).chiefs) if run["kind"] == REVIEW else None
        own = chief or (self.choice.provider, self.choice.model)
        row = provider_row(provider or own[0])
        usual = own[1] if row.name == own[0] else row.default_model
        value = {**run, "digest": digest, "provider": row.name, "model": model or usual}
        view = await self._sent(MODEL_RUN_ASK, proposal_id, value)
        require_done(view.model_runs[run["kind"]])
        return view

    async def record_verdict(
        self, proposal_id: str, digest: str, case: str, passed: bool, note: str
    ) -> ToolProposalView:
        """Records a person's verdict on a manual test case. Takes the role `user` or `chief`."""
        value = {"digest": digest, "case": case, "passed": passed, "note": note}
        return await self._sent(PROPOSAL_VERDICT, proposal_id, value)

    async def run_checks(self, proposal_id: str) -> ToolProposalView:
        """Runs the checks of a proposal again."""
        return await self._sent(PROPOSAL_CHECK, proposal_id, {})

    async def approve(self, proposal_id: str, digest: str, reason: str = "", *, read: bool) -> ToolProposalView:
        """Approves the proposal that has this digest, and puts the tool into the catalog. Takes the role `user`.
        `read`: the user has read the whole text of the tool, which is recorded; without it nothing is approved
        (`not_read`). If another version is live than the one that it changes, the proposal that is returned is
        `stale`."""
        return await self._decided(proposal_id, digest, "approve", reason, read=read)

    async def needs_changes(self, proposal_id: str, digest: str, reason: str) -> ToolProposalView:
        """Returns the proposal to its author. Takes the role `user` or `chief`."""
        return await self._decided(proposal_id, digest, "needs_changes", reason)

    async def reject(self, proposal_id: str, digest: str, reason: str) -> ToolProposalView:
        """Rejects the proposal. Takes the role `user`."""
        return await self._decided(proposal_id, digest, "reject", reason)

    async def withdraw(self, proposal_id: str, digest: str, reason: str = "") -> ToolProposalView:
        """Takes the proposal back: its author or a user."""
        return await self._sent(PROPOSAL_WITHDRAW, proposal_id, {"digest": digest, "reason": reason})

    async def history(self, tool_id: str) -> list[ToolVersion]:
        """Returns the approved versions of a tool in all layers, newest first."""
        require_unlocked(tool_id)
        return await self.backend.read.tool_versions(tool_id)

    async def version(self, tool_id: str, version: int, layer: str | None = None) -> dict[str, Any]:
        """Returns the document of an approval: the tool, who proposed, reviewed and approved it, and when. Raises
        NotFound (`no_version`)."""
        return await self._approved((await self._version(tool_id, version, layer)).snapshot)

    async def diff(self, tool_id: str, old: int, new: int, layer: str | None = None) -> list[FieldDiff]:
        """Returns the differences between two approved versions. Raises NotFound (`no_version`)."""
        before, after = await self.version(tool_id, old, layer), await self.version(tool_id, new, layer)
        return tool_diff(_tool(before["tool"]), _tool(after["tool"]))

    async def proposal_diff(self, proposal_id: str) -> list[FieldDiff]:
        """Returns the differences between what a proposal changes and what it proposes. Raises NotFound if it names a
        version that was never approved in this world, or if its text was erased (`erased`)."""
        found = await self.proposal(proposal_id)
        body = _body(found)
        proposed = None if found.kind == "delete" else PromptTool.from_json({name: body[name] for name in FIELDS})
        return tool_diff(await self._base(found.base) if found.base is not None else None, proposed)

    async def _base(self, digest: str) -> PromptTool | None:
        """Returns the version that a proposal changes. Of an erased one nothing is left: then all that is proposed is
        new."""
        try:
            return PromptTool.from_json(await self._approved(digest))
        except NotFound as error:
            if error.code != "erased":
                raise
            return None

    async def rollback(self, tool_id: str, version: int, rationale: str, layer: str | None = None) -> ToolProposalView:
        """Proposes an approved version again, with its examples and test cases. It is reviewed like any other
        proposal. Raises NotFound (`no_version`; `erased`: the text of its proposal was), InvalidValue
        (`deleted_version`: the tool was deleted by it)."""
        chosen = await self._version(tool_id, version, layer)
        if chosen.kind == "delete":
            raise InvalidValue(f"Version {version} deleted {tool_id}: choose another one.", code="deleted_version")
        live = await self._live_digest(tool_id, chosen.layer)
        approved = _body(await self.proposal(chosen.proposal))
        body = {**approved, "rationale": rationale, "proposalType": "new" if live is None else "modify"}
        body.pop("baseHash", None)
        return await self.propose(body if live is None else {**body, "baseHash": live})

    async def copy(self, tool_id: str, new_id: str, rationale: str, layer: str = "user") -> ToolProposalView:
        """Proposes a copy of a tool of the catalog, such as a core tool, under an id of its own. A copy of a core tool
        has test cases for a person; one of an approved tool has the examples and the test cases of its proposal. Raises
        NotFound (`no_tool`; `erased`: the text of the tool's proposal was)."""
        tool = await self.show(tool_id)
        body = copy_of(PromptTool.from_json(tool.to_json()), new_id, rationale, layer)
        if tool.proposal is not None:
            approved = _body(await self.proposal(tool.proposal))
            body |= {name: approved[name] for name in ("examples", "testCases")}
        return await self.propose(body)

    async def files(self) -> list[LayerStatus]:
        """Returns the state of the layer files of the user and of the project; changes nothing. Takes the role
        `user`."""
        return await self.backend.read.tool_files()

    async def sync(self) -> list[LayerStatus]:
        """Reads the layer files: each change in them becomes a proposal, once, and nothing is live by that. Takes the
        role `user`."""
        return await self.backend.run.sync_tool_files()

    async def export(self) -> ExportedTools:
        """Writes the live tools of the user and of the project to their layer files, and the missing files of the
        history. Takes the role `user`. Raises Conflict (`layer_changed`: call `sync` first), Damaged
        (`layer_damaged`)."""
        return await self.backend.run.export_tool_files()

    async def _version(self, tool_id: str, version: int, layer: str | None) -> ToolVersion:
        found = [each for each in await self.history(tool_id) if each.version == version]
        chosen = [each for each in found if layer in (None, each.layer)]
        if len(chosen) > 1:
            raise InvalidValue(f"{tool_id} has a version {version} in two layers: name one.", code="several_layers")
        if not chosen:
            hint = f"`demiurge tools history {tool_id}` lists them."
            raise NotFound(f"There is no version {version} of {tool_id}; {hint}", code="no_version")
        return chosen[0]

    async def _decided(
        self, proposal_id: str, digest: str, verdict: str, reason: str, *, read: bool = False
    ) -> ToolProposalView:
        value = {"digest": digest, "verdict": verdict, "reason": reason, "read": read}
        return await self._sent(PROPOSAL_DECIDE, proposal_id, value)

    async def _sent(
        self, schema: str, proposal_id: str, value: Mapping[str, Any], text: str | None = None
    ) -> ToolProposalView:
        await self.backend.run.submit_review(schema, {"proposal_id": proposal_id, **value}, text)
        return await self.proposal(proposal_id)

    async def _approved(self, ref: str) -> dict[str, Any]:
        return await self.backend.read.approved_document(ref)


def _body(found: ToolProposalView) -> Mapping[str, Any]:
    """Returns the body of a proposal. Raises NotFound (`erased`)."""
    if found.body is None:
        raise NotFound(f"The text of the proposal {found.id} was erased: it is gone for good.", code="erased")
    return found.body


def _tool(record: Mapping[str, str] | None) -> PromptTool | None:
    return PromptTool.from_json(record) if record is not None else None
