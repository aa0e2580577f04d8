"""What a journal still says afterwards: `replay`, `verify` and `seal`, the `trace` of an event, a policy's `backtest`.

Reads and compares; no record is written here. May import the kernel and what is below it.
"""
