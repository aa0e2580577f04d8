"""The core pack: 16 tools that gather evidence from the files and issues of a world, and never judge it.

Each tool has a record in `tools.json` (the text that a model is given), a module of its own name (the arguments and
`gather`), and its words and limits in `data/`. No tool calls a model: equal files and arguments give equal results.
Imports `demiurge.tools`, `demiurge.values` and the rest of `demiurge.registry`.
"""
