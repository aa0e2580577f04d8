"""The catalog of prompt tools as a message for the model, which a turn of a chat takes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend.sent_events import SentEvent
from demiurge.errors import Conflict, InvalidValue
from demiurge.registry.catalog_text import full_text, index_text
from demiurge.registry.prompt_tool import PromptTool
from demiurge.stores.protocol import Store
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.world.host import Host
from demiurge.world.review.live_tools import live_tools
from demiurge.world.review.registry_unit import REGISTRY, REGISTRY_KEY
from demiurge.world.unit import Unit

__all__ = ["PromptCatalog", "has_prompt_catalog"]

SETTING: Final = "prompt_catalog"
_AUTO: Final = "auto"
"""The default: the index, in a world that has approved a prompt tool of its own, and for a message that names the tool
that reads prompt tools."""
_OFF: Final = "off"


def _full(tools: Iterable[PromptTool], *, has_reader: bool) -> str:
    """Returns the whole text of all tools. There is nothing more for a reader to read."""
    return full_text(tools)


FORMS: Final[dict[str, Callable[..., str]]] = {"index": index_text, "full": _full}
"""The texts by the setting: each takes the tools, and whether the message offers the tool that reads them."""


def has_prompt_catalog(host: Host, lacking: Sequence[str]) -> bool:
    """Returns whether the turns of a chat have a catalog. `lacking`: the fields that the manifest does not have,
    because it is from an older version (`chat_fields`)."""
    has_fields = not any(field.endswith(".catalog_ref") for field in lacking)
    return has_fields and _form(host, has_reader=False) is not None


def _form(host: Host, *, has_reader: bool) -> str | None:
    """Returns the form of the catalog, one of `FORMS` or a wrong setting; None if a turn has no catalog."""
    if REGISTRY not in host.manifest.modules:
        return None
    form = host.manifest.settings.get(SETTING, _AUTO)
    if form == _AUTO:
        cell = host.state(Unit(REGISTRY, REGISTRY_KEY)).cell
        return "index" if has_reader or (cell is not None and cell["live"]) else None
    return None if form == _OFF else str(form)


class PromptCatalog:
    """The messages with the catalog: one for requests that offer the tool that reads prompt tools, and one for all
    others. They are made anew only when the registry or the manifest has changed, or a blob was erased."""

    def __init__(self) -> None:
        self._made_for: tuple[Any, ...] | None = None
        self._messages: dict[bool, dict[str, Any]] = {}

    def stored(self, host: Host, store: Store, *, has_reader: bool) -> Ref | None:
        """Stores the catalog as `{role, content, prompt_tools: {id: digest}}` and returns its address; None if the turn
        has no catalog: the setting is `off`, or it is `auto`, no prompt tool but the core tools is approved, and the
        message does not offer the tool that reads prompt tools. With `has_reader` it does, and the text names that
        tool. Raises InvalidValue (`bad_setting`), NotFound, Damaged."""
        form = _form(host, has_reader=has_reader)
        if form is None:
            return None
        if form not in FORMS:
            raise InvalidValue(
                f"The manifest's setting `{SETTING}` is none of auto, index, full and off: {form!r}.",
                code="bad_setting",
            )
        state = host.state(Unit(REGISTRY, REGISTRY_KEY))
        erased = frozenset(store.erasures())
        if self._made_for != (form, state.seq, len(erased)):
            tools = [found.tool for found in live_tools(state.cell, store.get_blob)]
            digests = {tool.id: tool.digest for tool in tools}
            self._messages = {
                reader: {"role": "system", "content": FORMS[form](tools, has_reader=reader), "prompt_tools": digests}
                for reader in (False, True)
            }
            self._made_for = form, state.seq, len(erased)
        message = self._messages[has_reader]
        for number in count():  # a copy of a catalog that was erased has another address
            data = canonical_json.encode({**message, "copy": number} if number else message)
            if (ref := ref_of(data)) not in erased or store.has_blob(ref):
                break
        return store.put_blob(data)

    def require_own(self, host: Host, store: Store, event: SentEvent) -> None:
        """Raises Conflict (`catalog_changed`) if an event is a message that names any text but the catalog of now, so
        that no caller puts an unapproved text in its place, or an old one back. Raises as `stored`."""
        named = event.fields.get("catalog_ref") if (event.module, event.tag) == (CHAT, "UserMessage") else None
        if named is not None and all(named != self.stored(host, store, has_reader=reader) for reader in (True, False)):
            raise Conflict(
                "The message's `catalog_ref` is not the catalog of prompt tools that is approved now: send the message "
                "with `Chat.send`, which names it, or leave `catalog_ref` out.",
                code="catalog_changed",
            )
