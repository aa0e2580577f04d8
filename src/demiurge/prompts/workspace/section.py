"""The section that gives a prompt files, and the tools to work on them.

What it says of the files (their top folder) is from when it was made, so that a prompt says the same in every turn; and
it isn't part of what an override replaces, so that an override written for one tree fits another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from demiurge.prompts.markdown import MarkdownSection
from demiurge.prompts.workspace.tools import workspace_tools
from demiurge.tools.filesystem import FileEntry, Filesystem

__all__ = ["WorkspaceToolsSection"]

_NAMED: Final = 30

_TEXT: Final = """
You have a folder of text files to work in. Paths are relative to its top folder, with / between names: docs/notes.md.
Look before you guess: `ls` shows a folder, `glob` finds files by path, `grep` finds lines by their text. Read what you
are going to rely on with `read_file`. """

_WRITING: Final = """Change a part of a file with `edit_file`, copying the old text exactly as it is in the file;
write a whole file with `write_file`. A call that fails has changed nothing."""

_READING: Final = "The files can't be changed."


class WorkspaceToolsSection(MarkdownSection[None]):
    """Instructions, a glance at the top folder of `filesystem`, and six tools; four where it is read-only.

    `Prompt.filesystem()` finds `filesystem` here, and an executor binds it for the tools. `session`: whom the section
    belongs to, if anybody. `accepts_overrides` holds for the text and for the tools."""

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
        self._glance = _glance(filesystem)

    def render_body(self, params: None, *, session: Any = None, template: str | None = None) -> str:
        """See Section."""
        return f"{super().render_body(params, session=session, template=template)}\n\n{self._glance}"

    def clone(
        self, *, session: Any = None, filesystem: Filesystem | None = None, **context: Any
    ) -> WorkspaceToolsSection:
        """The same for another session, over the same files unless others are given."""
        return WorkspaceToolsSection(
            session=self.session if session is None else session,
            filesystem=self.filesystem if filesystem is None else filesystem,
            accepts_overrides=self.accepts_overrides,
            title=self.title,
            key=self.key,
        )


def _glance(filesystem: Filesystem) -> str:
    """What is in the top folder, in a sentence."""
    found = filesystem.list(limit=_NAMED + 1)
    if not found:
        return "At the beginning there are no files."
    names = ", ".join(_names(found[:_NAMED]))
    return f"At the beginning the top folder holds {names}{' and more' if len(found) > _NAMED else ''}."


def _names(found: Iterable[FileEntry]) -> Iterator[str]:
    for entry in found:
        yield f"`{entry.path}/`" if entry.kind == "dir" else f"`{entry.path}`"
