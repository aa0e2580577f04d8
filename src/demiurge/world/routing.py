"""Routing: which unit an event belongs to, and in which form it arrives there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json, cbor
from demiurge.world.manifest import Manifest, Route
from demiurge.world.unit import Unit

__all__ = ["event_digest", "routed"]


MAX_KEY = 256


def event_digest(schema: str, value: Any, key: str) -> bytes:
    """Returns an event's identity: a digest of its schema, its value and the key of its cell."""
    return cbor.digest({"key": key, "value": value, "schema": schema})


def routed(manifest: Manifest, schema: str, value: Any) -> tuple[Unit, str, Any] | None:
    """Returns where an event goes and in which form: (unit, schema of the module's event, value); None if it has no
    route.

    Raises InvalidValue if the key field is missing or the key breaks its schema.
    """
    route = manifest.route(schema)
    if route is None:
        return None
    module = manifest.modules[route.module]
    if route.tag is not None:
        value = {"$tag": route.tag, "$value": value}
    return Unit(module.name, _key(manifest, route, value)), module.event, value


def _key(manifest: Manifest, route: Route, value: Any) -> str:
    if route.key_field is None:
        return ""
    found = value
    for name in route.key_field.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise InvalidValue("the event has no key", path=route.key_field)
        found = found[name]
    schema = manifest.modules[route.module].key_schema
    assert schema is not None
    key = manifest.schemas.validator(schema).normalise(found)
    text = key if isinstance(key, str) else canonical_json.encode(key).decode()
    if not 0 < len(text) <= MAX_KEY or not text.isprintable():
        raise InvalidValue(f"a key is 1 to {MAX_KEY} printable characters", path=route.key_field)
    return text
