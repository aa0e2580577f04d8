"""Files for tools: a tree in memory, and a folder of the disk, both of which can take a call's changes back.

Both are a `demiurge.tools.filesystem.Filesystem`. Imports only what is below it: `tools`, `values`, `errors`.
"""
