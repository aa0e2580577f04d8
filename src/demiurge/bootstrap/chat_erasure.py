"""The erasure of a whole chat (`Chat.delete`): which blobs hold what was said in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from demiurge.apps.demiurge import CHAT, TITLES
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_state import ChatCell
from demiurge.bootstrap.journal import Journal
from demiurge.errors import Damaged, NotFound
from demiurge.values.refs import Ref, parse_ref
from demiurge.world.messages import attachment_refs
from demiurge.world.retention.erasure import Erasure
from demiurge.world.unit import Unit

__all__ = ["erase_chat"]


async def erase_chat(cell: ChatCell, why: str, *, dry_run: bool) -> Erasure:
    """Erases the messages of a chat with all that was made of them, its titles and its notes. What units of other
    chats name stays. Raises as `World.erase`."""
    messages = await cell.messages(0) or []
    notes = (await cell.read({"notes": "all"}) or {}).get("notes") or ()
    named = await cell.backend.read.state(TITLES, cell.chat_id, None, {"output_ref": "all"}) or {}
    refs = [*notes, named.get("output_ref")]
    for message in messages:
        view_ref = message.tool.view_ref if message.tool is not None else None
        refs += [message.message_ref, message.findings_ref, view_ref]
    units = [Unit(CHAT, cell.chat_id), Unit(TITLES, cell.chat_id)]
    held = await asyncio.to_thread(lambda: list(_held(cell.backend, [*refs, *_sent(cell.backend, units[0])])))
    return await cell.backend.keep.erase(list(dict.fromkeys(held)), why, list(map(str, units)), dry_run)


def _sent(backend: Backend, unit: Unit) -> Iterator[str | None]:
    """Yields what events brought to a chat: all titles that it had, and also messages that it did not take. Raises
    Damaged; Unavailable for records in an archive that is away."""
    for record in Journal(backend).read(unit, kinds=("event",)):
        fields = record.body["value"].get("$value") if record.is_ingress else None
        if isinstance(fields, Mapping):
            yield from (fields.get("title_ref"), fields.get("message_ref"))


def _held(backend: Backend, refs: Iterable[str | None]) -> Iterator[Ref]:
    """Yields the addresses of texts, and of what is attached to them, but for those that were lost."""
    for ref in map(parse_ref, filter(None, refs)):
        try:
            data = backend.read.get_blob(ref)
        except Damaged:
            data = b""
        except NotFound as gone:
            if gone.code != "erased":
                continue
            data = b""
        yield ref
        yield from attachment_refs(data)
