"""Writing a tool: from a function or a class to a spec and a typed edge.

`tool.py` is what users write; `function.py`, `signature.py` and `docstring.py` read Python, `schema.py` compiles the
parameters for a model, `params.py` reads arguments and results strictly. Everything wrong is found here, once.
"""
