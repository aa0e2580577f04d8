"""What a store holds: computed again and found the same, or taken along into a fork."""

from __future__ import annotations

from collections import Counter

from tests.world.small_world import START_NS, SYSTEM, plain_data

from demiurge.stores import MemoryStore, Store
from demiurge.values.caller import Caller
from demiurge.values.clock import SeededEntropy
from demiurge.world.fork import Forked, fork
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.unit import Unit

__all__ = ["assert_replay_agrees", "assert_sound", "fork_store"]


def assert_replay_agrees(store: Store, manifest: Manifest) -> None:
    """Replay and verify pass, and what is loaded is what replay computes."""
    reader = Host(store, manifest, [])
    last = {state.unit: state for state in reader.replay()}
    assert {str(unit) for unit in last} == {head.unit for head in store.heads()}
    for unit, state in last.items():
        assert plain_data(state) == plain_data(reader.state(unit))
    done = verify(store)
    assert done.problem is None


def assert_sound(store: Store, host: Host, unchecked: Counter[Unit] | None = None) -> None:
    """The journal verifies, and replay computes each of its units up to where `host` has it."""
    assert verify(store).problem is None
    last = {state.unit: state.seq for state in host.replay(unchecked)}
    assert {str(unit) for unit in last} == {head.unit for head in store.heads()}
    assert last == {unit: host.state(unit).seq for unit in last}


def fork_store(
    source: Store, manifest: Manifest, at: int | None = None, *, world: str = "world_2", tail_bytes: int = 700
) -> tuple[MemoryStore, Forked]:
    target, entropy = MemoryStore(world), SeededEntropy(world.encode())

    def stamp(caller: Caller) -> Stamp:
        return Stamp(START_NS + 10**15, entropy.token(16), caller, manifest.ref)

    made = fork(source, target, manifest, stamp, at=at, caller=Caller("user"), blobs=[SYSTEM], tail_bytes=tail_bytes)
    return target, made
