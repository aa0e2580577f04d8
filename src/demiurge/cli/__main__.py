"""`python -m demiurge.cli`, for machines where the `demiurge` command is not on the path."""

from demiurge.cli.app import main

main()
