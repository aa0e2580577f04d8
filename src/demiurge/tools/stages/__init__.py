"""The stages of a tool call, one file each, to be read alone. A stage takes the runner's ports and the
call, and either adds to the call or raises ToolFailure. It may import anything of `demiurge.tools` but the
runner.
"""
