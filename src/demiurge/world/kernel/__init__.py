"""The kernel: one pure function from a unit's state and one ingress to its next state, records and wants.

    advance(manifest, unit_state, ingress, blobs) -> Advance | Need

No I/O, no clock, no randomness: they are in the ingress's stamp. Whatever a user, a reducer, a
policy or a provider does wrong becomes a recorded outcome; nothing is thrown for it, so replay reproduces it.
"""

from demiurge.world.kernel.advance import advance

__all__ = ["advance"]
