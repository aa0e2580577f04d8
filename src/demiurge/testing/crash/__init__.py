"""The crash kit: kills a tool at every point at which it can be cut off, and says what became of its effects.

`crash_points` is the entry; `outside` is what a tool under test uses; `child` runs in the processes that are killed;
`fork_server` bears them, `fork_client` asks it to; `report` is the outcome.
"""
