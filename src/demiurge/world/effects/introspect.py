"""`introspect.*`: a world looking at itself. The host reads, the receipt names what it saw (architecture.md 2)."""

from __future__ import annotations

from demiurge.errors import DemiurgeError
from demiurge.values import canonical_json
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["Introspect"]


class Introspect:
    kinds = ("introspect.manifest", "introspect.state")

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        if call.intent.kind == "introspect.manifest":
            return succeeded(manifest_ref=call.services.manifest.ref)
        params = call.intent.params
        module = call.manifest.modules.get(params["module"])
        if module is None:
            return failed("not_found", f"There is no module {params['module']}.")
        try:
            reading = await call.services.read_cell(Unit(module.name, params["key"]))
        except DemiurgeError as error:
            return failed(error.code, error.message)
        if reading.cell is None:
            return succeeded(state_ref=None, reading=reading.to_node())
        view = call.manifest.schemas.validator(module.state).to_json(reading.cell)
        return succeeded(state_ref=await call.put_blob(canonical_json.encode(view)), reading=reading.to_node())
