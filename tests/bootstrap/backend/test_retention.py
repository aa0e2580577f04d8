"""What a collection must leave alone because of how the world is opened."""

from __future__ import annotations

from tests.world.small_world import small_manifest

from demiurge.bootstrap.backend.retention import collect_garbage
from demiurge.bootstrap.manifest import Definitions, keep_definitions
from demiurge.stores import MemoryStore
from demiurge.values.clock import FixedClock
from demiurge.world.messages import user_blob

LATER = FixedClock(4_000_000_000 * 10**9)
"""Long after everything that the tests write."""


async def test_a_prompt_of_the_worlds_own_stays_while_it_is_opened_with_another() -> None:
    store = MemoryStore("world_1")
    prompt, nobodys = store.put_blob(user_blob("You sell bolts.", role="system")), store.put_blob(b"nobody's")
    shipped = Definitions.shipped()
    keep_definitions(store, Definitions(shipped.definitions, {**shipped.root, "settings": {"system_ref": prompt}}))
    await collect_garbage(store, small_manifest(), (), None, LATER, 7, False)
    assert store.has_blob(prompt)
    assert not store.has_blob(nobodys)
