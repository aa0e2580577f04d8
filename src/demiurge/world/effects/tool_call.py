"""`tool.call`: one proposed call through the one runner, with capabilities that are bound to the kernel.

The kernel has decided before this runs, and a person where the policy asks for one; the runner decides again and takes
that decision once, so a call that changed in between is refused (architecture.md 4).

A call works on a copy of its unit's session. Its receipt names the events that it folded, and from time to time the
whole state before it (`world.sessions`).
"""

from __future__ import annotations

import logging
from contextlib import nullcontext

from demiurge import faults
from demiurge.errors import DemiurgeError
from demiurge.tools.approvals import ApprovalDecision, ApprovalRequest
from demiurge.tools.capabilities import Introspection, Workspaces
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ledger.reconcile import reconciling
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.runner import ToolRunner
from demiurge.tools.source import StaticToolSource, ToolSource
from demiurge.values import canonical_json
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref, ref_of
from demiurge.world.admission import decide_tool
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effects.capabilities import WorldIntrospection, WorldWorkspaces
from demiurge.world.manifest import Manifest
from demiurge.world.messages import tool_blob
from demiurge.world.recorder import Recorder
from demiurge.world.sessions import Sessions
from demiurge.world.state import OpenIntent

__all__ = ["ToolCalls"]

log = logging.getLogger("demiurge.world")


class ToolCalls:
    """The adapter. `source` holds every tool that this process can run. Without `sessions` handlers have none."""

    kinds = ("tool.call",)

    def __init__(self, source: ToolSource, clock: Clock, sessions: Sessions | None = None) -> None:
        self._source, self._clock, self._sessions = source, clock, sessions

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """A read may be repeated, and so may what the record answers; else only the tool itself can find out."""
        spec = manifest.toolset.get(intent.params["tool"])
        if spec is not None and spec.effect is ToolEffect.READ_ONLY:
            return "retry"
        tool = self._source.get(intent.params["tool"])
        if tool is not None and tool.works_through_capabilities:
            return "retry"
        return "reconcile" if tool is not None and tool.reconcile is not None else "in_doubt"

    async def perform(self, call: EffectCall) -> Result:
        params = call.intent.params
        tool, pinned = self._source.get(params["tool"]), call.manifest.toolset.get(params["tool"])
        if tool is not None and (pinned is None or tool.spec.spec_hash != pinned.spec_hash):
            return failed("unavailable", "This tool has changed since the call was proposed.")
        try:
            recorder = self._recorder(call)
        except DemiurgeError as error:
            log.error("the session of %s can't be had: %s", call.unit, error.message)
            code = "unavailable" if call.restart != "reconcile" else "unknown_outcome"
            return failed(code, f"The session of this chat can't be read: {error.message}")
        proposed = canonical_json.parse_object(call.get_blob(params["call_ref"]))
        sink = _Sink()
        runner = ToolRunner(
            self._tools(call),
            policy=_policy(call),
            resources={
                Workspaces: WorldWorkspaces(call),
                Introspection: WorldIntrospection(call),
            },
            approvals=_Decision(call, self._clock),
            session=recorder.session if recorder is not None else None,
            emit=call.progress,
            blobs=sink,
            clock=self._clock,
        )
        with recorder.recording() if recorder is not None else nullcontext():
            result = await runner.exec(
                params["tool"],
                proposed["arguments_json"],
                tool_call_id=params["tool_call_id"],
                ctx=ToolPolicyContext(run_id=str(call.unit), actor=call.actor),
                approval_id=call.intent.id.hex(),
            )
        faults.point("tool.ran")
        for data in sink.kept:
            await call.put_blob(data)
        view = canonical_json.encode(result.value) if result.ok else None
        return succeeded(
            tool_call_id=result.tool_call_id,
            ok=result.ok,
            error_code=result.error_code.value if result.error_code is not None else None,
            message=result.safe_message or "",
            message_ref=await call.put_blob(tool_blob(params["tool_call_id"], result.content)),
            view_ref=await call.put_blob(view) if view is not None else None,
            record_ref=await call.put_blob(canonical_json.encode(result.record.public())),
            **await self._recorded(call, recorder, result.ok),
        )

    def _recorder(self, call: EffectCall) -> Recorder | None:
        """None where the receipt has no place for events, as under the manifest of an older version."""
        receipt = call.manifest.schemas.get(call.manifest.effects[call.intent.kind].receipt)
        if self._sessions is None or "events_ref" not in receipt["record"]:
            return None
        return Recorder(self._sessions.of(call.unit), self._sessions.codec)

    async def _recorded(self, call: EffectCall, recorder: Recorder | None, is_ok: bool) -> dict[str, Ref]:
        """What the receipt says of the session."""
        if recorder is None or self._sessions is None:
            return {}
        named: dict[str, Ref] = {}
        events = recorder.events if is_ok else None
        if events is not None:
            named["events_ref"] = await call.put_blob(events)
        checkpoint = self._sessions.checkpoint(call.unit)
        if checkpoint is not None:
            for data in checkpoint.blobs:
                await call.put_blob(data)
            call.refs += checkpoint.kept
            named["session_ref"] = await call.put_blob(checkpoint.data)
            self._sessions.stored(call.unit, checkpoint)
        return named

    def _tools(self, call: EffectCall) -> ToolSource:
        tool = self._source.get(call.intent.params["tool"])
        if call.restart == "reconcile" and tool is not None:
            return StaticToolSource([reconciling(tool)])
        return self._source


_STRICTNESS = ("allow", "require_approval", "deny")


def _policy(call: EffectCall) -> ToolPolicy:
    """The stricter of the policy that the call was admitted under and the one in force now (architecture.md 4)."""
    manifests = (call.manifest, call.services.manifest)
    verdicts = [decide_tool(manifest, call.intent.params["tool"], actor=call.actor).verdict for manifest in manifests]
    then, now = (_STRICTNESS.index(verdict) for verdict in verdicts)
    return manifests[now > then].tool_policy


class _Sink:
    """Keeps large results until the runner is done."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def put(self, data: bytes, /) -> Ref:
        self.kept.append(data)
        return ref_of(data)


class _Decision:
    """The journaled decision on this very call, handed out once (`tools.approvals.ApprovalStore`)."""

    def __init__(self, call: EffectCall, clock: Clock) -> None:
        self._intent, self._clock, self._taken = call.intent, clock, False

    def take(self, request: ApprovalRequest) -> ApprovalDecision | None:
        asked, given = self._intent.approval, self._intent.approved
        if self._taken or asked is None or given is None:
            return None
        bound = {
            "tool": request.tool_id,
            "tool_call_id": request.tool_call_id,
            "spec_hash": request.spec_hash,
            "args_digest": request.args_digest,
            "rule_digest": request.rule_digest,
            "actor": request.actor,
        }
        if any(asked[name] != value for name, value in bound.items()):
            return None
        self._taken = True
        late = self._clock.now_ns() >= asked["expires_ns"]
        return ApprovalDecision(
            approval_id=self._intent.id.hex(),
            outcome="expired" if late else "approved",
            by=given["by"],
            reason=given["reason"],
            decided_at_ms=given["at_ms"],
            expires_at_ms=asked["expires_ns"] // 1_000_000,
        )
