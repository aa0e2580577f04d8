"""A turn of 200 tool calls at the terminal and in Python, after few and after many earlier calls of the chat."""
