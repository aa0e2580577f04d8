"""The adapters that perform effects: the only code of a world that reaches outside it."""
