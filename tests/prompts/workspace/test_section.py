"""The section brings files and tools into a prompt, says the same in every turn, and is cloned into other sessions."""

from __future__ import annotations

from demiurge.filesystems import InMemoryFilesystem
from demiurge.prompts import Prompt, PromptTemplate, ToolExecutor
from demiurge.prompts.workspace import WorkspaceToolsSection
from demiurge.sessions import Session


def prompt(section: WorkspaceToolsSection) -> Prompt[None]:
    return Prompt(PromptTemplate(ns="tests", key="workspace", sections=[section]))


def test_the_workspace_section_lists_the_top_folder_and_carries_the_tools() -> None:
    section = WorkspaceToolsSection(filesystem=InMemoryFilesystem({"docs/a.md": "", "b$x.txt": ""}))
    rendered = prompt(section).render()
    assert "the top folder holds `b$x.txt`, `docs/`." in rendered.text
    assert [tool.name for tool in rendered.tools] == ["ls", "read_file", "write_file", "edit_file", "glob", "grep"]
    assert section.accepts_overrides is False


def test_files_that_can_only_be_read_come_without_the_tools_that_write() -> None:
    section = WorkspaceToolsSection(filesystem=InMemoryFilesystem({"a": ""}, read_only=True))
    rendered = prompt(section).render()
    assert "The files can't be changed." in rendered.text
    assert [tool.name for tool in rendered.tools] == ["ls", "read_file", "glob", "grep"]
    assert "edit_file" not in rendered.text


def test_the_workspace_section_keeps_its_text_in_every_turn_and_its_original_body_over_any_files() -> None:
    files = InMemoryFilesystem()
    section = WorkspaceToolsSection(filesystem=files)
    before = prompt(section).render().text
    assert "there are no files" in before
    files.write("a", "")
    assert prompt(section).render().text == before
    assert WorkspaceToolsSection(filesystem=files).original_body() == section.original_body()


def test_a_large_folder_is_described_briefly() -> None:
    files = InMemoryFilesystem({f"{number:03}": "" for number in range(500)})
    text = prompt(WorkspaceToolsSection(filesystem=files)).render().text
    assert "`029` and more." in text
    assert "030" not in text


def test_a_clone_is_for_another_session_or_other_files() -> None:
    files, others, session = InMemoryFilesystem(), InMemoryFilesystem(), Session()
    section = WorkspaceToolsSection(filesystem=files, accepts_overrides=True, key="files", title="Files")
    twin = section.clone(session=session)
    assert (twin.session, twin.filesystem, twin.accepts_overrides) == (session, files, True)
    assert (twin.key, twin.title, section.session) == ("files", "Files", None)
    assert twin.clone(filesystem=others).filesystem is others
    assert twin.clone(filesystem=others).session is session


def test_an_executor_works_on_the_sections_files_and_takes_back_what_failed() -> None:
    files, session = InMemoryFilesystem({"a": "one two"}), Session()
    section = WorkspaceToolsSection(session=session, filesystem=files)
    executor = ToolExecutor(prompt=prompt(section), session=session)
    messages, _ = executor.execute(
        [
            ("call_1", "edit_file", {"path": "a", "old_text": "one", "new_text": "1"}),
            ("call_2", "write_file", {"path": "../b", "text": ""}),
            ("call_3", "read_file", {"path": "a"}),
        ]
    )
    assert messages[0]["content"].startswith("Replaced the text in line 1 of a.")
    assert "can't lead upwards" in messages[1]["content"]
    assert messages[2]["content"] == "a, lines 1 to 1 of 1:\n\n     1\t1 two"
