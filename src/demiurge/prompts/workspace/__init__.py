"""Tools for text files, and the workspace section that adds them to a prompt."""

from __future__ import annotations

from demiurge.prompts.workspace.section import WorkspaceToolsSection
from demiurge.prompts.workspace.tools import workspace_tools

__all__ = ["WorkspaceToolsSection", "workspace_tools"]
