"""The command line: nouns, then verbs, over the `World` facade.

A command parses its arguments, opens a world, calls the facade and prints; it holds no rule of the runtime. Subcommands
are imported lazily, so `demiurge --help` loads only click. May import everything; nothing imports it.
"""

from demiurge.cli.app import main

__all__ = ["main"]
