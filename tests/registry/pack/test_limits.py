"""Core tools on very large files: the outcome stays small, and a file that is too large is refused."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from tests.registry.pack.prose_calls import CALLS
from tests.registry.pack.workspace_folder import sources_with

from demiurge.registry.evidence import MAX_QUOTE
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import MAX_FILE_CHARS

MAX_RESULT: Final = 64_000

LARGE: Final = 200_000

TEXTS: Final = {
    "one word": "x" * MAX_FILE_CHARS,
    "one line of names": "Mara Vale " * (LARGE // 10),
    "one line of sentences": "He must go, but why? " * (LARGE // 21),
    "many lines": "The next day he really  ran quickly.\n" * (LARGE // 37),
    "many scenes": "## Scene (POV: Mara)\nHe must go.\n" * (LARGE // 33),
    "white space": " \n" * (LARGE // 2),
    "marks": '."' * (LARGE // 2),
    "different words": " ".join("".join(word) + "ly" for word in product("abcdefghijklmnopqrstuvwxyz", repeat=3)),
    "different names": ", ".join("The" + "".join(word) for word in product("abcdefghijklmnopqrstuvwxyz", repeat=3)),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tool", CALLS)
async def test_the_outcome_for_a_large_file_is_small(tmp_path: Path, tool: str, text: str) -> None:
    files = {"a.md": TEXTS[text], "b.md": TEXTS[text]}
    found = await CALLS[tool](sources_with(tmp_path, files))
    assert len(json.dumps(found.value)) <= MAX_RESULT
    assert len(found.evidence) <= 130
    assert all(len(item.quote) <= MAX_QUOTE for item in found.evidence)


@pytest.mark.parametrize("tool", CALLS)
async def test_a_file_that_is_too_large_is_refused(tmp_path: Path, tool: str) -> None:
    files = dict.fromkeys(("a.md", "b.md"), "word " * MAX_FILE_CHARS)
    with pytest.raises(GatherError) as refused:
        await CALLS[tool](sources_with(tmp_path, files))
    assert refused.value.code in ("too_large", "unreadable")
    assert f"has more than {MAX_FILE_CHARS} characters" in refused.value.message
