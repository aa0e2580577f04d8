"""The local model's chat template: the text in `chat.jinja`, ours, in place of the one inside the model file.

With the built-in template the model writes its calls as text and none is recognised; with this one 20 of 20
requests were answered by the right call (design/local_model.md). Invariant: what does not change during a
chat (system text, tools) stands first and is rendered the same way every time, so that the engine's prompt
cache holds it.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["CHAT_TEMPLATE"]

CHAT_TEMPLATE = (files(__package__) / "chat.jinja").read_text("utf-8")
