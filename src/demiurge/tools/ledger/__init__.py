"""The idempotency ledger: equal calls run once.

`idempotency.py` says which calls are equal, `effects.py` what became of them; `waiting.py` lets equal calls at once
wait for the first, `reconcile.py` asks a tool what became of a call that nobody knows of.
"""
