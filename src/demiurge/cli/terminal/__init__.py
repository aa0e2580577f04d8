"""The terminal of `demiurge chat`: input line, styled answers, approval cards, slash commands.

Only `chat` imports this package, and only when a person sits at the terminal: prompt_toolkit and rich take time to
load. Every text of a model or a tool goes through `output.plain` or `output.spelled_out`, so that none of it
steers a terminal.
"""
