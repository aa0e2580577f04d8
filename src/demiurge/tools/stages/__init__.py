"""The stages of a tool call, one file each; each file can be read alone. A stage is a function of the runner's ports
and the call. It either adds to the call or raises ToolFailure. A stage may import anything of `demiurge.tools`
except the runner.
"""
