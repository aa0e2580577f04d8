"""What this user decided of a world, on this machine: its tools and policy, its manifest, its code, and approved calls.

None of it lies in the world: a folder that somebody else sent must not bring trust in itself.
"""
