"""What a world may let go of: garbage, and what somebody wants gone.

Records are kept for ever. Blobs are kept as long as something can lead to them (`garbage`), or until they are erased on
purpose (`erasure`); a world without either stays whole, says so, and replays as far as what is left allows.
"""
