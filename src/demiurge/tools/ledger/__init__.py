"""The idempotency ledger: equal calls run once.

`idempotency.py` decides which calls are equal, `ledger.py` keeps their results; `waiting.py` lets equal calls wait
for the first of them, `reconcile.py` asks a tool for the outcome of a call that is in doubt.
"""
