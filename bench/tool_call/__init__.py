"""One tool call, side by side with other libraries, each in an environment of its own: `python -m bench.tool_call`.

The same trivial typed tool everywhere: a JSON string in, the model's text out. Every contender is a process; they take
turns, batch by batch, on one core, so that what else the machine does hits all alike. Compare figures of one run only.
"""
