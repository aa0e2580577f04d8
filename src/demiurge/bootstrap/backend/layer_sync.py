"""Layer files and a world's registry of prompt tools, in the process that owns the world.

Reading: each change in a file becomes a proposal in the name of the file (`file:user`, `file:project`), once. Writing:
the live tools of a layer become its file, and each approved version a file of the history. The world notes the file
that it read or wrote last, by its digest; nothing in a file is live by that. A file with a problem is noted with its
reason, and left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from demiurge import faults
from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.bootstrap.layer_files import FoundLayer, find_layer, layer_path, write_history, write_layer_file
from demiurge.errors import DemiurgeError, NotFound, Unavailable
from demiurge.registry.history import history_file, history_file_name
from demiurge.registry.layer_proposal import layer_proposal, layer_proposal_id
from demiurge.registry.layers import LayerChange, LayerFile, layer_changes, read_layer
from demiurge.registry.prompt_tool import PromptTool
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.host import Host
from demiurge.world.review.proposal_unit import OPEN_STATES, PROPOSAL, PROPOSAL_SUBMIT, REFUSED
from demiurge.world.review.registry_unit import LAYER_SEEN, LAYERS, REGISTRY, REGISTRY_KEY, live_key
from demiurge.world.unit import Unit

__all__ = ["ExportedTools", "LayerStatus", "PromptToolFiles"]

MAX_PROPOSALS: Final = 50
"""The most proposals that are made of one file at once; the others follow when it is read again."""

_MAX_PROBLEM: Final = 2000


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """The state of a layer file. `none`: there is no file, and the world knows of none; `missing`: the file that it
    knows is gone; `unchanged`: the file is the one that the world read or wrote last; `changed`: nobody has read it
    since; `damaged`: nothing of it is usable. `problem`: what of it is not used, and why. `proposals`: the ids of the
    proposals that were made of the file and wait for somebody."""

    layer: str
    path: str | None
    state: Literal["none", "missing", "unchanged", "changed", "damaged"]
    problem: str | None = None
    proposals: tuple[str, ...] = ()


class ExportedTools(NamedTuple):
    """The files that were written. `kept`: for each layer, the ids of the entries that belong to other worlds."""

    files: tuple[str, ...]
    history: tuple[str, ...]
    kept: Mapping[str, tuple[str, ...]]


class PromptToolFiles:
    """The layer files of the world in `folder`, whose user has this `environment`. `proposals` lists all proposals."""

    def __init__(
        self,
        host: Host,
        folder: Path,
        environment: Mapping[str, str],
        proposals: Callable[[], Sequence[ToolProposalView]],
    ) -> None:
        self._host, self._folder, self._environment, self._proposals = host, folder, environment, proposals

    async def look(self) -> list[LayerStatus]:
        """Returns the state of each layer file; changes nothing."""
        return self._with_proposals([self._status(layer, await self._found(layer)) for layer in LAYERS])

    async def read(self, caller: Caller) -> list[LayerStatus]:
        """Reads the layer files and proposes what was changed in them; the states name no proposals. Raises NotFound or
        UsageError for a world whose manifest has no registry, Unavailable."""
        return [await self._synced(layer, await self._found(layer), caller) for layer in LAYERS]

    async def sync(self, caller: Caller) -> list[LayerStatus]:
        """Does as `read`, and returns the states with the proposals that wait."""
        return self._with_proposals(await self.read(caller))

    async def export(self, caller: Caller) -> ExportedTools:
        """Writes the files of the history that are missing, and both layer files. Raises LayerDamaged
        (`layer_damaged`), Conflict (`layer_changed`), Unavailable, after whatever could be written was."""
        history = await asyncio.to_thread(write_history, self._folder, self._history())
        files, kept, problem = [], {}, None
        for layer in LAYERS:
            try:
                path, kept[layer] = await self._exported(layer, caller)
            except DemiurgeError as error:
                problem = problem or error
            else:
                files += [path] if path is not None else []
        if problem is not None:
            raise problem
        return ExportedTools(tuple(files), tuple(str(path) for path in history), kept)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _found(self, layer: str) -> FoundLayer | None:
        path = layer_path(layer, self._folder, self._environment)
        return None if path is None else await asyncio.to_thread(find_layer, path)

    def _status(self, layer: str, found: FoundLayer | None) -> LayerStatus:
        if found is None:
            return LayerStatus(layer, None, "none")
        seen, path = self._seen(layer), str(found.path)
        if found.is_missing:
            if seen is None or (seen["digest"] is None and seen["problem"] is None):
                return LayerStatus(layer, path, "none")
            return LayerStatus(
                layer, path, "missing", f"{path} is gone. Nothing changed: `demiurge tools export` writes it again."
            )
        if found.file is None:
            return LayerStatus(layer, path, "damaged", found.problem)
        known = seen is not None and seen["digest"] == found.digest
        return LayerStatus(layer, path, "unchanged" if known else "changed", found.problem)

    async def _synced(self, layer: str, found: FoundLayer | None, caller: Caller) -> LayerStatus:
        status, seen = self._status(layer, found), self._seen(layer)
        if found is None or status.state == "none":
            return status
        digest, problem = (
            found.digest if found.file is not None else None,
            found.problem and found.problem[:_MAX_PROBLEM],
        )
        if seen is not None and (seen["digest"], seen["problem"]) == (digest, problem):
            return status
        changes = layer_changes(self._pinned(layer), found.file, self._before(layer)) if found.file is not None else []
        fresh = [change for change in changes if self._free_id(layer, change) is not None]
        refused = [await self._propose(layer, change, caller) for change in fresh[:MAX_PROPOSALS]]
        faults.point("layer.proposed")
        if len(fresh) <= MAX_PROPOSALS:
            await self._note(layer, found.data if found.file is not None else None, problem, caller)
        return replace(status, problem=" ".join(filter(None, (status.problem, *refused))) or None)

    def _with_proposals(self, found: list[LayerStatus]) -> list[LayerStatus]:
        waiting = [(view.submitted_by, view.id) for view in self._proposals() if view.state in OPEN_STATES]
        return [
            replace(status, proposals=tuple(key for author, key in waiting if author == _author(status.layer)))
            for status in found
        ]

    def _before(self, layer: str) -> LayerFile | None:
        """Returns the file that the world read or wrote last; None if there was none, or its bytes are gone."""
        seen = self._seen(layer)
        if seen is None or seen["digest"] is None:
            return None
        try:
            return read_layer(self._host.get_blob(Ref(seen["digest"])))
        except NotFound:
            return None

    def _free_id(self, layer: str, change: LayerChange) -> str | None:
        """Returns the id for the proposal of a change; None if the file has proposed it. Others can predict an id and
        take it: then the next one is free."""
        approvals = sum((entry["layer"], entry["tool"]) == (layer, change.id) for entry in self._cell("history", ()))
        names = (layer_proposal_id(layer, change, approvals, taken) for taken in count())
        for name, cell in ((name, self._host.state(Unit(PROPOSAL, name)).cell) for name in names):
            if cell is None:
                return name
            if _is_of_file(cell, layer, change):
                return None
        raise AssertionError("There is always another id.")

    async def _propose(self, layer: str, change: LayerChange, caller: Caller) -> str | None:
        """Submits a proposal. Returns why its unit refuses it; None if it takes it, or the file has proposed it."""
        live = self._tool(change.base) if change.kind == "delete" and change.base is not None else None
        body = await self._host.put_blob(layer_proposal(layer, change, live).encode())
        author = Caller(_author(layer), caller.tenant, ("agent",), "file")
        while (name := self._free_id(layer, change)) is not None:
            accepted = await self._host.submit(PROPOSAL_SUBMIT, {"proposal_id": name, "body_ref": body}, caller=author)
            refused = self._refusal(Unit.parse(accepted.unit), accepted.seq)
            if refused is None or refused["code"] != "exists":
                return None if refused is None else f"{change.id}: {refused['message']}"
        return None

    def _refusal(self, unit: Unit, seq: int) -> Mapping[str, Any] | None:
        """Returns what the unit of a proposal refused of the event that its record `seq` holds."""
        for record in self._host.records(unit, seq + 1):
            if record.is_ingress:
                break
            if record.kind == "event" and record.body["schema"] == REFUSED:
                found: Mapping[str, Any] = record.body["value"]
                return found
        return None

    async def _note(self, layer: str, data: bytes | None, problem: str | None, caller: Caller) -> None:
        digest = None if data is None else await self._host.put_blob(data)
        value = {"registry": REGISTRY_KEY, "layer": layer, "digest": digest, "problem": problem}
        await self._host.submit(LAYER_SEEN, value, caller=caller)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _exported(self, layer: str, caller: Caller) -> tuple[str | None, tuple[str, ...]]:
        """Writes a layer file. Returns its path, None if there is nothing to write, and the ids of other worlds."""
        tools = [self._tool(digest) for digest in self._pinned(layer).values()]
        known = {entry["tool"] for entry in self._cell("history", ()) if entry["layer"] == layer}
        if not known:
            return None, ()
        path = layer_path(layer, self._folder, self._environment)
        if path is None:
            raise Unavailable(
                "No home of the user is known, so their tools can't be exported: set HOME.", code="no_home"
            )
        seen = self._seen(layer)
        digest = Ref(seen["digest"]) if seen is not None and seen["digest"] is not None else None
        written = await asyncio.to_thread(write_layer_file, path, tools, known, digest)
        faults.point("layer.exported")
        if ref_of(written.data) != digest:
            await self._note(layer, written.data, None, caller)
        return str(path), written.kept

    def _history(self) -> list[tuple[str, str, Any]]:
        return [
            (entry["tool"], history_file_name(entry["at"], seq, Ref(entry["digest"])), partial(self._version, entry))
            for seq, entry in enumerate(self._cell("history", ()))
        ]

    def _version(self, entry: Mapping[str, Any]) -> bytes | None:
        """Returns the bytes of the history's file of an approved version; None if its text was erased."""
        try:
            snapshot = canonical_json.parse_object(self._host.get_blob(Ref(entry["snapshot"])))
            parent, report = snapshot["parent"], snapshot["report"]
            harness = None if report is None else canonical_json.parse_object(self._host.get_blob(Ref(report)))
            old = None if parent is None else self._tool(Ref(parent))
        except NotFound:
            return None
        return history_file(snapshot, entry["version"], old, harness)

    # -- the registry -------------------------------------------------------------------------------------------------

    def _cell(self, name: str, default: Any) -> Any:
        cell = self._host.state(Unit(REGISTRY, REGISTRY_KEY)).cell
        return default if cell is None else cell[name]

    def _seen(self, layer: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._cell("layers", {}).get(layer)
        return found

    def _pinned(self, layer: str) -> dict[str, Ref]:
        """Returns the digests of the live tools of a layer, by id."""
        prefix = live_key(layer, "")
        live: Mapping[str, Any] = self._cell("live", {})
        return {key.removeprefix(prefix): Ref(live[key]["digest"]) for key in sorted(live) if key.startswith(prefix)}

    def _tool(self, digest: Ref) -> PromptTool:
        return PromptTool.from_json(canonical_json.parse_object(self._host.get_blob(digest)))


def _is_of_file(cell: Mapping[str, Any], layer: str, change: LayerChange) -> bool:
    """Returns whether a proposal is the one that the layer file made of this change; people may have revised it."""
    if cell["submitted_by"] != _author(layer):
        return False
    if change.tool is None:
        return bool(cell["kind"] == change.kind)
    return bool(cell["revisions"][0]["digest"] == layer_proposal(layer, change, None).digest)


def _author(layer: str) -> str:
    """Returns the actor of what a layer file proposes."""
    return f"file:{layer}"
