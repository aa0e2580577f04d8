"""The HTTP API of a world, and the pages of its web shell.

Installed by the extra `server`, and imported by `demiurge serve` alone. `app.create_app` builds the application around
an open `World`; each module of `routes` holds the paths of one subject.
"""
