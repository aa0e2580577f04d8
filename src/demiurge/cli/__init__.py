"""The command line: nouns, then verbs, over the `World` facade.

A command parses its words, opens a world, calls the facade and prints: no rule of the runtime lives here. Subcommands
are imported when they are used, so `demiurge --help` loads nothing but click. May import everything; nothing imports
it.
"""

from demiurge.cli.app import main

__all__ = ["main"]
