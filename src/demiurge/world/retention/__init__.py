"""Retention: garbage collection, archives for the bytes of old records, and the erasure of blobs.

Records are kept forever; their bytes may move to files (`archive`). Blobs are kept as long as something leads to them
(`garbage`), or until they are erased on purpose (`erasure`). A world without them still verifies, says what is missing,
and replays as far as the rest allows.
"""
