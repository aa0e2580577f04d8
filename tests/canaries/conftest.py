"""The command line in processes of its own, against a provider on a loopback socket, as in `tests/cli`."""

from tests.cli.conftest import environment, process, provider, world

__all__ = ["environment", "process", "provider", "world"]
