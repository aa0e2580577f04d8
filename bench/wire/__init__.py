"""The wire formats on recorded traffic: what was tried, what came out equal, and where not, why.

`DEMIURGE_CORPORA=<folder> python -m bench.wire` reads `wire/*.jsonl.gz` and `local_wire/` in that folder; without one,
the recorded answers that the tests keep. Nothing is sent anywhere; the official SDKs, which read the same bytes, live
in an environment of their own.
"""
