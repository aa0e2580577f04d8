"""Capabilities without a world: HTTP, workspaces and a timer for the tools of a `ToolRunner` in a program of its own.

    ToolRunner(tools, resources={HttpAccess: LocalHttp(["api.example.com"]), Workspaces: FolderWorkspaces("notes")})

The protocols are in `demiurge.tools.capabilities`, so a handler that asks for one runs unchanged in a world, where the
same capability is an effect that is admitted and recorded. The guard of requests (`http`) and the masks of secrets
(`injection`) are the same code in both. Imports `models`, `filesystems`, `tools`, `values` and `errors`.
"""
