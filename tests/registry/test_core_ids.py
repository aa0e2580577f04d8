# ruff: noqa: RUF001 - look-alike letters are what these tests are about
"""Spellings that stand for a core tool."""

from __future__ import annotations

import pytest

from demiurge.errors import UsageError
from demiurge.registry.core_ids import ALIASES, CORE_IDS, core_id_of, require_unlocked

SPELLINGS = (
    *("beat_architect", "BEAT_ARCHITECT", "Beat-Architect", " beat architect ", "beat.architect", "BeatArchitect"),
    *("core__beat_architect", "core.beat_architect", "Core__Beat-Architect", "beat__architect", "_beat_architect_"),
    *("ｂｅａｔ＿ａｒｃｈｉｔｅｃｔ", "bеat_architect", "beаt_аrchitеct", "be\u200bat_architect", "béat_architect"),
    *("\ufeffbeat_architect", "beat\u2010architect", "𝐛𝐞𝐚𝐭_architect", "beat_archıtect", "beat_archltect"),
    *("beat_arch1tect", "ƅeat_architect", "beat_builder", "beat/architect"),
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_spelling_of_a_core_id_is_locked(spelling: str) -> None:
    assert core_id_of(spelling) == "beat_architect"
    with pytest.raises(UsageError) as refused:
        require_unlocked(spelling)
    assert refused.value.code == "core_tool_locked"


@pytest.mark.parametrize("core_id", CORE_IDS)
def test_each_core_id_and_alias_stands_for_its_tool(core_id: str) -> None:
    assert {core_id_of(name) for name in (core_id, *ALIASES.get(core_id, ()))} == {core_id}


@pytest.mark.parametrize("own", ["beat_architect_custom", "scene_pacer", "my_file_reader", "corex", "core", ""])
def test_an_id_of_its_own_is_not_locked(own: str) -> None:
    assert core_id_of(own) is None
    require_unlocked(own)


def test_there_are_sixteen_core_ids() -> None:
    assert len(set(CORE_IDS)) == 16
