import tempfile
from pathlib import Path

from demiurge.filesystems import FolderFilesystem
from demiurge.prompts import Prompt, PromptTemplate, ToolExecutor
from demiurge.prompts.workspace import WorkspaceToolsSection

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "shop.toml").write_text('currency = "EUR"\nvat = 19\n\n[shipping]\nfree_from = 50\n')
    section = WorkspaceToolsSection(filesystem=FolderFilesystem(folder))
    prompt = Prompt(PromptTemplate(ns="docs", key="files", sections=[section]))
    executor = ToolExecutor(prompt=prompt)

    calls = [
        ("call_1", "grep", {"pattern": "vat|free"}),
        ("call_2", "edit_file", {"path": "shop.toml", "old_text": "vat = 19", "new_text": "vat = 21"}),
        ("call_3", "read_file", {"path": "shop.toml", "lines": 2}),
        ("call_4", "edit_file", {"path": "shop.toml", "old_text": " = ", "new_text": ": "}),
        ("call_5", "read_file", {"path": "../../etc/passwd"}),
    ]
    messages, _ = executor.execute(calls)
    for message in messages:
        print(f"--- {message['tool_call_id']}\n{message['content']}")
