"""Where overrides are kept: one behaviour, two places."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.prompts.example_prompts import a_tool, section, template

from demiurge.errors import Damaged
from demiurge.prompts import (
    FolderOverrides,
    InMemoryOverrides,
    Prompt,
    PromptOverride,
    PromptOverridesStore,
    PromptTemplate,
    PromptValidationError,
)

NOW = Prompt(template(section("a", tools=[a_tool()]))).descriptor
OVERRIDE = PromptOverride(
    "hotel",
    "desk",
    sections=(NOW.section_override(("a",), "Größer, $$ & „besser“."),),
    tools=(NOW.tool_override("look_up", "Finds it.", {"words": "One."}),),
)
FILE = Path("hotel", "desk", "latest.json")


@pytest.fixture(params=[lambda path: InMemoryOverrides(), FolderOverrides], ids=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PromptOverridesStore:
    make: Callable[[Path], PromptOverridesStore] = request.param
    return make(tmp_path / "overrides")


def test_a_stored_override_is_returned_until_it_is_deleted(store: PromptOverridesStore) -> None:
    assert store.get("hotel", "desk") is None
    assert store.delete("hotel", "desk") is False
    store.put(NOW, OVERRIDE)
    assert store.get("hotel", "desk") == store.get(" Hotel", "DESK", "latest") == OVERRIDE
    assert (store.get("hotel", "desk", "trial"), store.get("hotel", "bar")) == (None, None)
    assert (store.delete("hotel", "desk"), store.get("hotel", "desk")) == (True, None)


def test_a_later_override_replaces_the_earlier_one(store: PromptOverridesStore) -> None:
    store.put(NOW, OVERRIDE)
    later = PromptOverride("hotel", "desk", sections=(NOW.section_override(("a",), "Later."),))
    store.put(NOW, later)
    assert store.get("hotel", "desk") == later


def test_a_value_that_cannot_be_applied_is_not_kept(store: PromptOverridesStore) -> None:
    with pytest.raises(PromptValidationError):
        store.put(Prompt(template(section("b"))).descriptor, OVERRIDE)
    assert store.get("hotel", "desk") is None


def test_a_prompt_reads_its_store_at_each_rendering(store: PromptOverridesStore) -> None:
    prompt = Prompt(template(section("a", tools=[a_tool()])), store)
    assert "Be kind." in prompt.render().text
    store.put(NOW, OVERRIDE)
    assert "Größer, $ & „besser“." in prompt.render().text
    store.delete("hotel", "desk")
    assert "Be kind." in prompt.render().text


@pytest.mark.parametrize(
    "names", [("..", "desk"), ("hotel/../..", "desk"), ("hotel", "../desk"), ("hotel", "desk", "../x")]
)
def test_no_name_leads_out_of_the_folder(store: PromptOverridesStore, names: tuple[str, ...]) -> None:
    with pytest.raises(PromptValidationError):
        store.get(*names)
    with pytest.raises(PromptValidationError):
        store.delete(*names)


def test_prompts_with_similar_names_have_files_of_their_own(tmp_path: Path) -> None:
    store = FolderOverrides(tmp_path)
    for ns, key in (("a", "b"), ("a/b", "c"), ("a/b", "c.json"), ("a", "b.json")):
        descriptor = Prompt(PromptTemplate(ns, key)).descriptor
        for tag in ("c", "latest"):
            store.put(descriptor, PromptOverride(ns, key, tag))
    assert len(list(tmp_path.rglob("*.json"))) == 8 + 2
    assert len([path for path in tmp_path.rglob("*.json") if path.is_file()]) == 8


def test_a_file_is_json_that_a_person_can_read(tmp_path: Path) -> None:
    FolderOverrides(tmp_path).put(NOW, OVERRIDE)
    text = (tmp_path / FILE).read_text("utf-8")
    assert "Größer, $$ & „besser“." in text
    assert json.loads(text)["sections"][0]["path"] == ["a"]
    assert [path.name for path in (tmp_path / FILE).parent.iterdir()] == ["latest.json"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"ns": "hotel", "prompt_key": "desk", "more": 1}', '{"ns": "hotel", "prompt_key": "bar"}'],
)
def test_a_file_that_is_no_override_of_this_prompt_is_damaged(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(Damaged, match=r"latest\.json"):
        FolderOverrides(tmp_path).get("hotel", "desk")


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderOverrides(tmp_path)
    store.put(NOW, OVERRIDE)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.put(NOW, PromptOverride("hotel", "desk"))
    assert store.get("hotel", "desk") == OVERRIDE
    assert [path.name for path in (tmp_path / FILE).parent.iterdir()] == ["latest.json"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    store = FolderOverrides(tmp_path)
    small = PromptOverride("hotel", "desk")
    store.put(NOW, small)
    ended = threading.Event()

    def write() -> None:
        for _ in range(20):
            store.put(NOW, OVERRIDE)
            store.put(NOW, small)
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not ended.is_set():
        seen.append(store.get("hotel", "desk"))
    writer.join()
    assert all(found in (small, OVERRIDE) for found in seen)
