"""Whether an effect may happen: grants, policies (`admission`), and a person's word where one is asked (`approval`).

All of it is pure, so a replay decides the same. May import `manifest` and the plain data of this layer.
"""
