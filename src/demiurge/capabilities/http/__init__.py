"""HTTP requests to checked addresses: `urls` reads an address in one way only, `rules` says what a grant covers,
`addresses` which networks are the public internet, `guarded` sends, `bodies` reads the answer, and `local` is the
capability of a runner without a world.

The `http.request` and `webhook.deliver` effects of a world use the same modules. Imports `models`, `tools`, `values`,
`errors` and httpx.
"""
