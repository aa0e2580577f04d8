"""Authoring of tools: from a function or a class to a spec and typed parameters and results.

Users write what `tool.py` defines. `function.py`, `signature.py` and `docstring.py` inspect Python functions,
`schema.py` compiles the parameters for a model, `params.py` parses arguments and results strictly. Every mistake in
a tool is found here, once.
"""
