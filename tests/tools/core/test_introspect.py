"""A world looks at itself through a capability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.tools import CORE_TOOLS, Introspection, ToolPolicy, ToolRunner


class Mirror:
    async def manifest(self) -> Mapping[str, Any]:
        return {"schemas": ["a/B@1"]}

    async def state(self, module: str | None, key: str | None) -> Mapping[str, Any]:
        return {"asked": [module, key], "secret": "canary"}

    async def schemas(self, prefix: str | None) -> Mapping[str, Any]:
        return {"names": [prefix]}

    async def module(self, name: str) -> Mapping[str, Any]:
        return {"name": name}


RUNNER = ToolRunner(
    CORE_TOOLS,
    policy=ToolPolicy(("introspect.manifest", "introspect__state", "introspect__schemas", "introspect__module")),
    resources={Introspection: Mirror()},
)


async def test_introspect_manifest_returns_the_manifest_and_takes_no_arguments() -> None:
    result = await RUNNER.exec("introspect.manifest", {})
    assert result.value == {"manifest": {"schemas": ["a/B@1"]}}
    assert (await RUNNER.exec("introspect__manifest", {"x": 1})).error_code == "validation"


async def test_state_is_for_the_model_and_only_its_place_is_public() -> None:
    result = await RUNNER.exec("introspect__state", {"module": "demiurge/Demiurge@1"})
    assert '"asked":["demiurge/Demiurge@1",null]' in result.content
    assert result.value == {"module": "demiurge/Demiurge@1", "key": None}


async def test_schemas_and_modules_are_public() -> None:
    assert (await RUNNER.exec("introspect__schemas", {})).value == {"schemas": {"names": [None]}}
    assert (await RUNNER.exec("introspect.schemas", {"prefix": "sys/"})).value == {"schemas": {"names": ["sys/"]}}
    assert (await RUNNER.exec("introspect__module", {"name": "a/B@1"})).value == {"module": {"name": "a/B@1"}}
    assert (await RUNNER.exec("introspect__module", {})).error_code == "validation"
