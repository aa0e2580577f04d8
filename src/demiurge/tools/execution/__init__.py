"""The parts that the runner's stages work with: the call, the ports it may use, and the threads and loops in which a
handler runs.

Nothing here decides anything: the decisions are made in the stages, each a module of `demiurge.tools.stages`.
"""
