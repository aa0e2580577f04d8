"""Reading a journal afterwards: `replay`, `verify`, `seal`, the `trace` of an event, and the `backtest` of a tool
policy.

Everything here reads and compares; it writes no record. May import the kernel and the packages below it.
"""
