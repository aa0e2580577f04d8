"""The kernel: one pure function from a unit's state and one ingress to its next state, records and effects to perform.

    advance(manifest, unit_state, ingress, blobs) -> Advance | Need

It does no I/O; time and entropy come from the ingress's stamp. A fault of a user, a reducer, a policy or a provider
becomes a recorded outcome and raises nothing, so replay reproduces it.
"""

from demiurge.world.kernel.advance import advance

__all__ = ["advance"]
