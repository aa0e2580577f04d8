from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from demiurge.errors import Damaged, InvalidValue
from demiurge.values import Ref, Vector, cbor, ref_of


class Shelf:
    """Content-addressed storage that counts what it is asked."""

    def __init__(self) -> None:
        self.blobs: dict[Ref, bytes] = {}
        self.reads = 0

    def keep(self, vector: Vector[Any]) -> dict[str, Any]:
        node, blobs = vector.root()
        assert all(ref_of(data) == ref for ref, data in blobs.items())
        self.blobs |= blobs
        return node

    def get(self, ref: Ref) -> bytes:
        self.reads += 1
        return self.blobs[ref]


class VectorsAreLists(RuleBasedStateMachine):
    """Any history of versions: each stays equal to its plain list, in memory and after a visit to storage."""

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.pairs: list[tuple[Vector[int], list[int]]] = []

    @initialize(size=st.sampled_from([0, 1, 15, 16, 17, 500, 511, 512, 513, 600]))
    def start(self, size: int) -> None:
        self.pairs.append((Vector.of(range(size)), list(range(size))))

    @rule(which=st.integers(min_value=0), item=st.integers())
    def append(self, which: int, item: int) -> None:
        vector, model = self.pairs[which % len(self.pairs)]
        self.pairs.append((vector.append(item), [*model, item]))

    @rule(which=st.integers(min_value=0), size=st.integers(min_value=0, max_value=70))
    def extend(self, which: int, size: int) -> None:
        vector, model = self.pairs[which % len(self.pairs)]
        self.pairs.append((vector.extend(range(size)), model + list(range(size))))

    @rule(which=st.integers(min_value=0))
    def store(self, which: int) -> None:
        vector, model = self.pairs[which % len(self.pairs)]
        node = self.shelf.keep(vector)
        assert node == Vector.of(model).root()[0]

    @rule(which=st.integers(min_value=0))
    def reload(self, which: int) -> None:
        vector, model = self.pairs[which % len(self.pairs)]
        self.pairs.append((Vector.load(self.shelf.keep(vector), self.shelf.get), model))

    @rule(which=st.integers(min_value=0), at=st.integers(-700, 700), to=st.integers(-700, 700))
    def look(self, which: int, at: int, to: int) -> None:
        vector, model = self.pairs[which % len(self.pairs)]
        assert vector[at:to] == model[at:to]
        assert vector[at:to:-3] == model[at:to:-3]
        if -len(model) <= at < len(model):
            assert vector[at] == model[at]
        else:
            with pytest.raises(IndexError):
                vector[at]

    @invariant()
    def same(self) -> None:
        for vector, model in self.pairs[-3:]:
            assert len(vector) == len(model)
            assert list(vector) == model
            assert list(reversed(vector)) == model[::-1]
            assert vector == model


VectorsAreLists.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestVectorsAreLists = VectorsAreLists.TestCase


def test_equality_is_that_of_sequences() -> None:
    three = Vector.of([1, 2, 3])
    assert three == (1, 2, 3)
    assert three.__eq__([1, 2, 3])
    assert three == Vector.of([1, 2]).append(3)
    assert three != [1, 2]
    assert three != [1, 2, 4]
    assert Vector.of("ab") != "ab"
    assert 2 in three
    with pytest.raises(TypeError):
        hash(three)


def test_the_representation_does_not_show_items() -> None:
    assert repr(Vector.of(["secret"])) == "<Vector of 1>"


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
def test_the_bytes_that_an_append_writes_do_not_grow_with_the_vector(size: int) -> None:
    vector = Vector.of({"text": f"message {number:06}", "ref": "r" * 40} for number in range(size))
    vector.root()
    chunks, written = [], []
    for number in range(512):
        vector = vector.append({"text": f"message {number:06}", "ref": "r" * 40})
        node, blobs = vector.root()
        chunks.append(len(blobs))
        written.append(len(cbor.encode(node)) + sum(map(len, blobs.values())))
    assert max(chunks) <= 5  # a leaf, and a node for each level above it
    assert sum(chunks) / len(chunks) < 1.3
    assert sum(written) / len(written) < 1_200
    assert max(written) < 5_500


def test_versions_share_their_chunks() -> None:
    vector = Vector.of(range(1_000))
    written = vector.root()[1]
    assert vector.root()[1] == {}
    one, two = vector.append(1).root()[1], vector.append(2).root()[1]
    assert len(one) == len(two) == 1
    assert set(one).isdisjoint(two)
    assert len(written) == -(-1_000 // 16) + 2 + 1


def test_loading_reads_only_the_path_to_what_is_asked() -> None:
    shelf = Shelf()
    node = shelf.keep(Vector.of(range(100_000)))
    vector: Vector[int] = Vector.load(node, shelf.get)
    assert shelf.reads == 0
    assert vector[50_000] == 50_000
    assert shelf.reads == 4
    assert vector[50_001] == 50_001
    assert shelf.reads == 4
    appended = vector.append(-1)
    assert shelf.reads <= 5
    node, blobs = appended.root()
    shelf.blobs |= blobs
    assert Vector.load(node, shelf.get)[-2:] == [99_999, -1]


def test_replacing_what_is_not_written_yet_sees_each_item_once() -> None:
    vector: Vector[int] = Vector.of(range(100))
    vector.root()
    seen: list[int] = []

    def negate(items: tuple[int, ...]) -> list[int]:
        seen.extend(items)
        return [-item for item in items]

    assert vector.replace_unwritten(negate) is vector
    longer = vector.extend(range(100, 130)).replace_unwritten(negate)
    assert seen == list(range(100, 130))
    assert longer == [*range(100), *range(-100, -130, -1)]


@given(st.integers(0, 1200), st.integers(0, 1200))
@settings(max_examples=20, deadline=None)
def test_equal_lists_have_equal_roots_and_others_do_not(one: int, two: int) -> None:
    left, right = Vector.of(range(one)), Vector.of(range(one // 2)).extend(range(one // 2, one))
    assert left.root()[0] == right.root()[0]
    assert (left.root()[0] == Vector.of(range(two)).root()[0]) == (one == two)


@pytest.mark.parametrize(
    "change",
    [
        {"n": -1},
        {"n": "40"},
        {"n": True},
        {"n": 48},
        {"n": 32},
        {"levels": 0},
        {"levels": 2},
        {"top": None},
        {"tail": None},
        {"top": "sha256:x"},
        {"extra": 1},
    ],
    ids=repr,
)
def test_a_wrong_root_node_is_refused(change: dict[str, Any]) -> None:
    shelf = Shelf()
    node = shelf.keep(Vector.of(range(40)))
    with pytest.raises(InvalidValue):
        Vector.load({**node, **change}, shelf.get)


@pytest.mark.parametrize("damage", [b"", cbor.encode([1]), cbor.encode({}), cbor.encode(list(range(17)))], ids=repr)
def test_a_chunk_that_does_not_fit_is_damage(damage: bytes) -> None:
    shelf = Shelf()
    node = shelf.keep(Vector.of(range(600)))
    for ref in list(shelf.blobs):
        vector: Vector[int] = Vector.load(node, {**shelf.blobs, ref: damage}.__getitem__)
        with pytest.raises(Damaged):
            list(vector)


def test_growing_by_one_gives_every_shape() -> None:
    vector: Vector[int] = Vector.of([])
    roots = [vector.root()[0]]
    for number in range(1_100):
        vector = vector.append(number)
        roots.append(vector.root()[0])
    assert all(before != after for before, after in pairwise(roots))
    assert roots[-1] == Vector.of(range(1_100)).root()[0]
