"""The settings that the shipped app reads: their values, and the check of a new manifest that holds the app.

A world that was made before this check opens with the settings that it has; each reader refuses what it can't use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from demiurge.apps.demiurge import CHAT, app
from demiurge.bootstrap.offered_tools import DEFERRED_SETTINGS
from demiurge.bootstrap.shipped_tools import CORE_PACK_SETTINGS
from demiurge.errors import InvalidValue
from demiurge.models.providers import PROVIDERS
from demiurge.models.request import temperature_text
from demiurge.values.refs import parse_ref
from demiurge.world.manifest import Folder, Problem, problems
from demiurge.world.manifest.shapes import did_you_mean

__all__ = ["EVIDENCE", "SETTINGS", "TITLES", "Evidence", "Titles", "folder_problems"]

MOST: Final = 2**63 - 1
"""The largest whole number of a setting."""
LONGEST_SHOWN: Final = 60
"""The most characters of a value that a problem quotes."""
CODE: Final = frozenset({"defmodule", "defeffect"})
"""Kinds of definitions that come with code, which may read settings of its own."""


Evidence = Literal["off", "mark", "retry", "refuse"]
"""The consequence of an answer whose evidence does not hold (docs/evidence.md)."""

EVIDENCE: Final[tuple[Evidence, ...]] = get_args(Evidence)


Titles = Literal["auto", "always", "off"]
"""The models that are asked for the title of a chat (docs/chats.md#titles)."""

TITLES: Final[tuple[Titles, ...]] = get_args(Titles)


class Setting(NamedTuple):
    """A setting: its values in words, and whether a value is one of them."""

    words: str
    accepts: Callable[[Any], bool]


def _whole(least: int) -> Setting:
    return Setting(f"a whole number from {least}", lambda value: type(value) is int and least <= value <= MOST)


def _one_of(*words: str) -> Setting:
    return Setting(" or ".join(words), lambda value: isinstance(value, str) and value in words)


def _is_temperature(value: Any) -> bool:
    return isinstance(value, str) and _holds(temperature_text, value)


def _is_model(value: Any) -> bool:
    provider, _, model = value.partition("/") if isinstance(value, str) else ("", "", "")
    return provider in PROVIDERS and bool(model) and model.isprintable()


def _is_budget(value: Any) -> bool:
    limits = frozenset({"max_requests", "max_tokens", "max_cost_micros"})
    return isinstance(value, Mapping) and value.keys() <= limits and all(map(_whole(0).accepts, value.values()))


def _holds(read: Callable[[str], object], value: str) -> bool:
    try:
        read(value)
    except InvalidValue:
        return False
    return True


SETTINGS: Final[Mapping[str, Setting]] = {
    "max_tokens": _whole(1),
    "temperature": Setting('a decimal number from 0 to 2 in quotes, such as "0.7"', _is_temperature),
    "window_turns": _whole(1),
    "max_tool_rounds": _whole(0),
    "system_ref": Setting("the ref of a blob", lambda value: isinstance(value, str) and _holds(parse_ref, value)),
    "prompt_catalog": _one_of("auto", "index", "full", "off"),
    "evidence": _one_of(*EVIDENCE),
    "titles": _one_of(*TITLES),
    "chief": Setting("a provider and a model, such as anthropic/claude-sonnet-4-5", _is_model),
    "deferred": _one_of(*DEFERRED_SETTINGS),
    "core_pack": _one_of(*CORE_PACK_SETTINGS),
    "model_runs": Setting(
        "an object with any of max_requests, max_tokens, max_cost_micros, each a whole number from 0", _is_budget
    ),
}
"""The settings that the app reads, by name."""


def folder_problems(folder: Folder) -> tuple[Problem, ...]:
    """Returns all problems of the folder of a new manifest, joined with what it extends: those of `problems`, and
    those of its settings if it holds the app."""
    return (*problems(folder), *_setting_problems(folder))


def _setting_problems(folder: Folder) -> Iterator[Problem]:
    known = {str(definition.get("name")) for definition in app().definitions}
    if CHAT not in {part.content.get("name") for part in folder.definitions}:
        return
    has_own_code = any(p.content["$kind"] in CODE and p.content.get("name") not in known for p in folder.definitions)
    for fragment in folder.fragments:
        settings = fragment.content.get("settings")
        for name, value in settings.items() if isinstance(settings, Mapping) else ():
            place = fragment.place.at("settings", name)
            setting = SETTINGS.get(name)
            if setting is not None and not setting.accepts(value):
                yield place.wrong(f"{_shown(value)} is no value of this setting", f"write {setting.words}")
            elif setting is None and not has_own_code:
                yield place.wrong("is no setting of the app", did_you_mean(name, SETTINGS, "leave it out"))


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
