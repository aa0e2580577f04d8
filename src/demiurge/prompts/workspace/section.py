"""The workspace section: it gives a prompt files, and the tools to work on them.

What it says of the files (their top folder) is read when it is made, so that a prompt is the same in every turn. An
override does not replace this part, so an override written for one tree fits another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from demiurge.prompts.markdown import MarkdownSection
from demiurge.prompts.workspace.tools import workspace_tools
from demiurge.tools.filesystem import FileEntry, Filesystem

__all__ = ["WorkspaceToolsSection"]

_MAX_NAMED: Final = 30

_TEXT: Final = """
You have a folder of text files to work in. Paths are relative to its top folder, with / between names: docs/notes.md.
Look before you guess: `ls` shows a folder, `glob` finds files by path, `grep` finds lines by their text. Read what you
are going to rely on with `read_file`. """

_WRITING: Final = """Change a part of a file with `edit_file`, copying the old text exactly as it is in the file;
write a whole file with `write_file`. A call that fails has changed nothing."""

_READING: Final = "The files can't be changed."


class WorkspaceToolsSection(MarkdownSection[None]):
    """Instructions, an overview of the top folder of `filesystem`, and six tools; four if it is read-only.

    `Prompt.filesystem()` finds `filesystem` here, and an executor binds it for the tools. `session`: the session
    that the section belongs to, if any. `accepts_overrides` applies to the text and to the tools."""

    def __init__(
        self,
        *,
        session: Any = None,
        filesystem: Filesystem,
        accepts_overrides: bool = False,
        title: str = "Workspace",
        key: str = "workspace.tools",
    ) -> None:
        self.session = session
        self.filesystem = filesystem
        super().__init__(
            title=title,
            key=key,
            template=(_TEXT + (_READING if filesystem.read_only else _WRITING)).replace("\n", " "),
            tools=workspace_tools(read_only=filesystem.read_only, accepts_overrides=accepts_overrides),
            accepts_overrides=accepts_overrides,
        )
        self._overview = _overview(filesystem)

    def render_body(self, params: None, *, session: Any = None, template: str | None = None) -> str:
        """Returns the instructions and the overview of the files; see Section."""
        return f"{super().render_body(params, session=session, template=template)}\n\n{self._overview}"

    def clone(
        self, *, session: Any = None, filesystem: Filesystem | None = None, **context: Any
    ) -> WorkspaceToolsSection:
        """Returns the same section for another session, over the same files unless others are passed."""
        return WorkspaceToolsSection(
            session=self.session if session is None else session,
            filesystem=self.filesystem if filesystem is None else filesystem,
            accepts_overrides=self.accepts_overrides,
            title=self.title,
            key=self.key,
        )


def _overview(filesystem: Filesystem) -> str:
    """Returns a sentence that lists the top folder."""
    found = filesystem.list(limit=_MAX_NAMED + 1)
    if not found:
        return "At the beginning there are no files."
    names = ", ".join(_names(found[:_MAX_NAMED]))
    return f"At the beginning the top folder holds {names}{' and more' if len(found) > _MAX_NAMED else ''}."


def _names(found: Iterable[FileEntry]) -> Iterator[str]:
    for entry in found:
        yield f"`{entry.path}/`" if entry.kind == "dir" else f"`{entry.path}`"
