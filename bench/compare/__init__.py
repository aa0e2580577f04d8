"""Demiurge beside its peers, each set up as its docs recommend, with its own durable store: `python -m bench.compare`
prints every table, `python -m bench.compare crash audit` prints two of them. It needs a network the first time, for an
environment of each peer. docs/compare.md shows one run."""
