"""What the runner's stages work with: one call, the ports it may use, and the threads and loops a handler runs in.

Nothing here decides anything: that is the stages' part, each in its own module of `demiurge.tools.stages`.
"""
