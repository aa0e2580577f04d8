"""A durable agent: manifest, kernel, plans, caps and policy, effects, replay, and the host that runs them.

May import everything below it but `agents`. Start with `kernel`, a pure function: `authority` tells it what may happen,
`history` feeds it again what happened, `host` runs it and has the `effects` performed, `watching` shows them meanwhile.
The modules beside these packages are the data that they share, each after its noun (`record`, `state`, `plan`).
"""
