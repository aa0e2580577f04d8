"""Reviewed prompt tools: their form, the locks on the core ids, proposals, checks, and the shipped pack.

A prompt tool is instruction text for the model. It is in the catalog text of a prompt only after a person approved it,
and it never adds a tool that can be called. Everything here is pure: the modules `sys/ToolRegistry@1`,
`sys/ToolProposal@1` and `sys/Issue@1` of a world keep the state (`demiurge.world.review`). Imports `values`, `tools`
and `wire`.
"""
