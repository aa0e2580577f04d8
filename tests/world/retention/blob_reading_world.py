"""A room that reads blobs, and the erasure of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.world.small_world import START_NS, small_manifest

from demiurge.stores import Store
from demiurge.values.caller import Caller
from demiurge.values.clock import SeededEntropy
from demiurge.values.refs import parse_ref
from demiurge.world.history.replay import Manifests
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.reducer import ReducerContext, Step
from demiurge.world.retention.erasure import Erasure, erase

__all__ = ["blob_reading_manifest", "blob_reading_reducer", "erase_blob"]


def blob_reading_reducer(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Logs how long the blob is that it is told of, or what else it is told."""
    what = event["$value"]["what"]
    text = str(len(context.blob(parse_ref(what)))) if what.startswith("sha256:") else what
    return Step(set={"n": state["n"] + 1 if state is not None else 1}, append={"log": [text]})


def blob_reading_manifest() -> Manifest:
    return small_manifest(reduce=blob_reading_reducer)


def erase_blob(
    store: Store, ref: str, *, why: str = "asked to", dry_run: bool = False, of: Manifest | None = None
) -> Erasure:
    current = of or blob_reading_manifest()
    stamp = Stamp(START_NS, bytes(16), Caller("user"), current.ref)
    manifests = Manifests(current, store.get_blob)
    return erase(store, manifests, [ref], why, stamp, SeededEntropy(len(list(store.read_all()))), dry_run=dry_run)
