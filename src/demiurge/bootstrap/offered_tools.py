"""The tools that a message offers to its model if it names none: those that its requests describe, and those that the
model finds on demand (docs/tools-on-demand.md).

The user's own tools, the tools of MCP servers, the time, the workspace and questions to a person are described, as long
as they are small together. Beyond that the tools of the largest MCP servers are found on demand, and at last the user's
own. The core pack, and the tools that read the world itself, are found on demand in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from demiurge.bootstrap.mcp_tools import server_of
from demiurge.bootstrap.shipped_tools import CORE_PACK_SETTINGS, NAMED, OFFERED, PACK_IDS
from demiurge.errors import InvalidValue
from demiurge.registry.catalog_text import PROMPT_TOOL
from demiurge.registry.catalog_tools import PROPOSE_TOOL
from demiurge.tools.ids import FIND_TOOLS, READ_RESULT, is_shipped_id
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json

__all__ = [
    "DEFERRED_SETTINGS",
    "MOST_TOKENS",
    "OfferedTools",
    "listed_tools",
    "offered_tools",
    "tokens_of",
]

_AUTO: Final = "auto"
_OFF: Final = "off"
DEFERRED_SETTINGS: Final = (_AUTO, _OFF)
"""The values of the manifest's setting `deferred`; the first is the default."""

MOST_TOKENS: Final = 3000
"""The most tokens that the tools of the user and of MCP servers may take in each request, by `tokens_of`."""

BYTES_OF_TOKEN: Final = 4
"""A rough mean for English and JSON."""
_INTROSPECT: Final = "introspect__"


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools that requests describe, and the ids of those that the model finds on demand."""

    described: Sequence[ToolSpec]
    deferred: tuple[str, ...] = ()


def offered_tools(
    specs: Sequence[ToolSpec],
    settings: Mapping[str, Any],
    *,
    has_catalog: bool,
    skips_catalog: bool = False,
    is_small: bool = False,
    has_large_results: bool,
) -> OfferedTools:
    """Chooses among the tools that the policy lets a model see.

    `settings`: those of the manifest; `deferred` and `core_pack` count. `has_catalog`: the message brings the catalog
    of prompt tools; `skips_catalog`: its sender wants none. `is_small`: the model is one of a provider whose prompts
    have no catalog, and is described no core pack. `has_large_results`: a result may be stored in place of its
    text, or have a file. Raises InvalidValue (`bad_setting`)."""
    pack = _setting(settings, "core_pack", (None, *CORE_PACK_SETTINGS))
    pack = None if pack == OFFERED and is_small else pack
    finds = _setting(settings, "deferred", (None, *DEFERRED_SETTINGS)) != _OFF
    finds = finds and any(spec.name == FIND_TOOLS for spec in specs)
    hidden = {FIND_TOOLS, PROMPT_TOOL} - ({PROMPT_TOOL} if has_catalog else set())
    hidden |= set() if has_large_results else {READ_RESULT}
    hidden |= {PROPOSE_TOOL} if skips_catalog or not (has_catalog or finds) else set()
    hidden |= PACK_IDS if pack == NAMED or (pack is None and not finds) else frozenset()
    offered = [spec for spec in specs if spec.name not in hidden]
    if not finds:
        return OfferedTools(offered)
    deferred = {spec.name for spec in offered if spec.name.startswith(_INTROSPECT) or spec.name == PROPOSE_TOOL}
    deferred |= PACK_IDS if pack != OFFERED else frozenset()
    deferred |= _beyond_limit([spec for spec in offered if not is_shipped_id(spec.name)])
    later = tuple(spec.name for spec in offered if spec.name in deferred)
    if later:
        offered = [spec for spec in specs if spec.name == FIND_TOOLS or spec.name not in hidden]
    return OfferedTools([spec for spec in offered if spec.name not in deferred], later)


def listed_tools(specs: Sequence[ToolSpec]) -> OfferedTools:
    """Returns what a list of tools describes to a client that can search: the user's own tools and those of MCP servers
    as far as they are small together, the search, and the tool that reads large results. All others are deferred."""
    beyond = _beyond_limit([spec for spec in specs if not is_shipped_id(spec.name)])
    always = (FIND_TOOLS, READ_RESULT)
    deferred = {spec.name for spec in specs if is_shipped_id(spec.name) and spec.name not in always} | beyond
    described = [spec for spec in specs if spec.name not in deferred]
    return OfferedTools(described, tuple(spec.name for spec in specs if spec.name in deferred))


@lru_cache(maxsize=8192)
def tokens_of(spec: ToolSpec) -> int:
    """Returns about how many tokens a tool costs in each request that describes it; every model counts differently."""
    schema = spec.to_json()["input_schema"]
    sent = canonical_json.encode({"name": spec.name, "description": spec.model_description, "input_schema": schema})
    return -(-len(sent) // BYTES_OF_TOKEN)


def _beyond_limit(specs: Sequence[ToolSpec]) -> set[str]:
    """Returns the tools of the largest MCP servers, and at last all of the user's own, until the others are small
    together."""
    groups: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for spec in specs:
        groups[server_of(spec) or ""].append(spec)
    sizes = {server: sum(map(tokens_of, own)) for server, own in groups.items()}
    order = sorted(groups, key=lambda server: (server == "", -sizes[server], server))  # the user's own come last
    deferred: set[str] = set()
    left = sum(sizes.values())
    for server in order:
        if left <= MOST_TOKENS:
            break
        deferred.update(spec.name for spec in groups[server])
        left -= sizes[server]
    return deferred


def _setting(settings: Mapping[str, Any], name: str, values: Sequence[str | None]) -> str | None:
    value: str | None = settings.get(name)
    if value not in values:
        words = " nor ".join(str(word) for word in values if word is not None)
        raise InvalidValue(f"The manifest's setting `{name}` is neither {words}: {value!r}.", code="bad_setting")
    return value
