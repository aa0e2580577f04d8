"""The results of the core tools, whole: each field and sentence, for each value of each argument, on one story.

`results.json` has the outcome of each of `calls()`, without the digests of receipts. After a change that is meant,
`python -m tests.registry.pack.test_kept_results` writes the file again: read the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.registry.pack.story_files import STORY
from tests.registry.pack.test_pack_tools import ARGS, Board
from tests.registry.pack.workspace_folder import FolderWorkspaces, put

from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.tools import ToolPolicy, ToolRunner, Workspaces
from demiurge.tools.capabilities import Issues

RESULTS = Path(__file__).with_name("results.json")

LONG: Final = "Story/SCN-scene-4-mara-vale.md"
MARA: Final = "Compendium/characters/CHAR-mara.md"
OUTLINE: Final = "Story/SCN-outline.md"
FILES: Final = {
    **STORY,
    LONG: (
        "---\ntitle: The Ferry\ndate: 1891-05-03\n---\n# The Ferry\n\n"
        "On Monday morning, 3 May 1891, Mara Vale was very tired; the rope was pulled by nobody.\n"
        '"I will not go," she said quietly. "You must!" Tobin shouted angrily, and the gate was opened.\n'
        "She felt cold. She felt alone. She felt that she would lose everything if the soldier came back.\n\n"
        "Two hours later the soldier came. His eyes were blue. 'Where is he?' the soldier asked.\n"
        "The   soldier looked at the map ,and he began to laugh... It was really, really suddenly dark!!\n\n"
        "***\n\n"
        "Meanwhile, in the Compendium of the abbey, Annabel cooked. Annabel's eyes were green.\n"
        "The next evening Mara has brown eyes. She studied the letter; she thought of the boat. TODO: which boat?\n"
        "Nothing could be done. There was a bell. It was the bell that rang. A bell rang, and a bell rang again.\n"
        "If she failed, the town would drown. She had to choose. Would she? She chose the river.\n"
        "In 1890 the war ended. On 5 May 1891 it was Tuesday. Three days earlier he had left.\n"
    ),
    "Story/notes.txt": "No heading here.\n\n\nOnly a note about the tide, the gate and Mara.\n",
    MARA: "# Mara\nMara is a ferrywoman.\nEyes: brown\nAge: 31\nMara never lies. Mara cannot swim.\n",
}

MORE: Final[dict[str, list[dict[str, Any]]]] = {
    "search_issues": [{"tags": ["gate", "canon"]}, {"assigned_to": "bo"}, {"tags": ["none"]}, {"status": "open"}, {}],
    "file_locator": [
        *({"search_criteria": words} for words in ("mara", "gate", "4", "*.txt", "nobody", "SCN", "Mara Vale")),
        {"search_criteria": "mara", "include_globs": ["Compendium/**"]},
        *({"search_criteria": words, "scan_mode": "DEEP_SCAN"} for words in ("nobody", "mara", "gate", "vale")),
    ],
    "file_reader": [{"file_path": "Story/none.md"}, {"file_path": "Story"}, {"file_path": LONG, "start_line": 5}],
    "task_router": [
        {"user_request": text}
        for text in (
            "Find the file about Mara.",
            "Read Story/SCN-low-tide.md and check the canon.",
            "Which beats does the scene need, and is the prose good?",
            "Show open issues.",
            "What are the stakes? How would a reader feel?",
            "Hello",
        )
    ],
    "canon_checker": [{"scene_path": LONG, "canon_paths": [MARA, "Compendium/characters/CHAR-annabel.md"]}],
    "outline_analyzer": [{"outline_path": OUTLINE}, {"outline_path": LONG}, {"outline_path": "Story/notes.txt"}],
    "prose_analyzer": [{"scene_path": LONG}, {"scene_path": "Story/notes.txt"}],
    "consistency_checker": [
        {"file_paths": [LONG]},
        {"file_paths": [LONG, MARA]},
        {"file_paths": [LONG, OUTLINE, MARA]},
    ],
    "scene_draft_validator": [{"scene_path": LONG}, {"scene_path": LONG, "outline_path": OUTLINE}],
    "stakes_mapper": [
        {"scene_paths": [LONG]},
        {"outline_path": OUTLINE},
        {"scene_paths": [LONG], "outline_path": OUTLINE},
    ],
    "line_editor": [
        {"text": "The   soldier was really tired ,and he began to laugh..."},
        {"file_path": LONG, "start_line": 7, "end_line": 12},
        {"file_path": LONG},
        {"file_path": "Story/notes.txt"},
    ],
    "scene_impact_analyzer": [{"scene_path": LONG}, {"scene_path": LONG, "outline_path": OUTLINE}],
    "reader_experience_simulator": [{"scene_paths": [LONG]}, {"scene_paths": ["Story/notes.txt", LONG]}],
    "timeline_validator": [{"file_paths": [LONG]}, {"file_paths": [LONG, "Story/SCN-low-tide.md"]}],
    "beat_architect": [
        {"scene_brief": text}
        for text in (
            "Mara leaves.",
            "Mara, the ferrywoman, wants to cross the river before dawn because the soldier will close the gate; "
            "Tobin stops her, and she must choose between the boat and her brother. At the end she is alone.",
        )
    ],
}


def calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each tool with its plain arguments and `MORE`, and with each value that an argument's schema names."""
    tools = {tool.name.removeprefix("core__"): tool for tool in PACK_TOOLS}
    for core_id in CORE_IDS:
        plain = [ARGS[core_id], *MORE.get(core_id, ())]
        yield from ((core_id, args) for args in plain)
        for name, schema in tools[core_id].spec.input_schema["properties"].items():
            for value in values_of(schema):
                yield from ((core_id, {**args, name: value}) for args in plain[-2:])


def values_of(schema: dict[str, Any]) -> Iterator[Any]:
    """The values that a schema names, its bounds among them; none for texts and lists."""
    yield from schema.get("enum", ())
    yield from (value for value in (schema.get("minimum"), schema.get("maximum")) if value is not None)
    if schema.get("type") == "boolean":
        yield True
    for child in schema.get("anyOf", ()):
        yield from values_of(child)


async def found(folder: Path) -> list[dict[str, Any]]:
    put(folder / "main", FILES)
    resources = {Workspaces: FolderWorkspaces(folder), Issues: Board()}
    runner = ToolRunner(PACK_TOOLS, policy=ToolPolicy(tuple(f"core__{one}" for one in CORE_IDS)), resources=resources)
    kept = []
    for core_id, args in calls():
        done = await runner.exec(f"core__{core_id}", args)
        said, _, value = done.content.partition("\n\n")
        outcome: dict[str, Any] = json.loads(value) if value.startswith("{") else {"said": value}
        receipt = outcome.pop("receipt", None) or {}
        evidence = [
            [each["path"], each["start_line"], each["end_line"], each["quote"]] for each in receipt.get("evidence", ())
        ]
        said = re.sub(r"rcpt_[0-9a-f]{32}", "<receipt>", said)
        kept.append({"call": [core_id, args], "said": said, **outcome, "evidence": evidence})
    return kept


async def test_each_tool_gives_what_is_kept(tmp_path: Path) -> None:
    kept = json.loads(RESULTS.read_text("utf-8"))
    now = await found(tmp_path)
    assert [each["call"] for each in now] == [each["call"] for each in kept]
    for one, before in zip(now, kept, strict=True):
        assert one == before, one["call"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        results = asyncio.run(found(Path(place)))
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
