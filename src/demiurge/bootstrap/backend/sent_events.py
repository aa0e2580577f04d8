"""The rules of what a caller may send as an event. A unit takes an event by what the event says, from whomever it
comes; what depends on the caller stands here alone, for the API, the command line, Python and agents alike.

* Ids of calls that begin with `mcp-` are the gateway's.
* A person gives a chat its title: an agent that did could hide what people decide on behind a name of its own. So a
  person archives it: an agent could else put a chat away before anybody looked at it.
* Whoever names a blob must be able to read it, or have stored it: naming gives no right. An attachment of a message
  that an event names is named too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from demiurge.apps.demiurge import CALLS, CHAT
from demiurge.bootstrap.backend.asked_calls import PREFIX
from demiurge.errors import Conflict, NotFound, UsageError
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.manifest import Manifest
from demiurge.world.messages import attachment_refs
from demiurge.world.routing import routed

__all__ = ["OwnBlobs", "SentEvent", "require_readable_blobs", "require_sender", "sent_event"]

MOST_OWN: Final = 10_000
"""How many stored blobs are remembered as their callers' own, the newest."""


PERSONS: Final = {
    "ChatRenamed": "Only a user renames a chat: people decide on its calls by its title.",
    "ChatImported": "Only a user imports a chat: people read its history as what was said.",
    "ChatArchived": "Only a user archives a chat, or takes it from the archive: people look for it in the list.",
    "ChatDeleted": "Only a user deletes a chat.",
}
"""The events of a chat that only a user sends, each with the sentence that refuses it to others."""


class SentEvent(NamedTuple):
    """An event as its unit will see it: the unit's module, its tag and fields, and the blobs that it names."""

    module: str
    tag: str
    fields: dict[str, Any]
    refs: tuple[Ref, ...]


def sent_event(manifest: Manifest, schema: str, value: Any) -> SentEvent | None:
    """Returns an event from outside; None for one that no module takes. Raises InvalidValue."""
    if schema not in manifest.schemas:
        return None
    validator = manifest.schemas.validator(schema)
    value = validator.normalise(value)
    target = routed(manifest, schema, value)
    if target is None:
        return None
    unit, _, given = target
    is_variant = isinstance(given, dict) and isinstance(given.get("$value"), dict)
    tag, fields = (given["$tag"], given["$value"]) if is_variant else ("", {})
    return SentEvent(unit.module, tag, fields, tuple(validator.refs(value)))


def require_sender(event: SentEvent, caller: Caller) -> None:
    """Raises Conflict (`reserved_id`), UsageError (`role_missing`) for an event that this caller may not send."""
    if event.module == CALLS and str(event.fields.get("call_id", "")).startswith(PREFIX):
        raise Conflict(
            f"Ids that begin with {PREFIX} are given by the gateway, to the caller who asks: choose another id.",
            code="reserved_id",
        )
    if event.module == CHAT and event.tag in PERSONS and not caller.has("user"):
        raise UsageError(PERSONS[event.tag], code="role_missing")


def require_readable_blobs(
    refs: Iterable[Ref], may_name: Callable[[Ref], bool], get_blob: Callable[[Ref], bytes]
) -> None:
    """Raises NotFound for a blob that the caller may not name, as for one that is not there."""
    for ref in _named(refs, may_name, get_blob):
        if not may_name(ref):
            raise NotFound(f"There is no blob {ref} here; store it first with `demiurge blob put`.")


def _named(refs: Iterable[Ref], may_name: Callable[[Ref], bool], get_blob: Callable[[Ref], bytes]) -> Iterator[Ref]:
    for ref in refs:
        yield ref
        yield from attachment_refs(get_blob(ref))


class OwnBlobs:
    """The blobs that callers stored since this process owns the world. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: OrderedDict[tuple[str, str, Ref], None] = OrderedDict()

    def note(self, caller: Caller, ref: Ref) -> None:
        """Notes that the caller has the bytes of a blob."""
        with self._lock:
            self._stored[_key(caller, ref)] = None
            self._stored.move_to_end(_key(caller, ref))
            if len(self._stored) > MOST_OWN:
                self._stored.popitem(last=False)

    def holds(self, caller: Caller, ref: Ref) -> bool:
        """Returns whether the caller stored the blob."""
        return _key(caller, ref) in self._stored


def _key(caller: Caller, ref: Ref) -> tuple[str, str, Ref]:
    return caller.actor, caller.tenant, ref
