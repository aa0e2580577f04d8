"""Merkle trees: against the definition, written down as it stands in RFC 6962."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from demiurge.stores.merkle import EMPTY, Frontier, leaf_hash, node_hash, path_root, proof_path, root_of

SIZES = st.integers(1, 130)


def leaves(count: int) -> list[bytes]:
    return [leaf_hash(b"%d" % number) for number in range(count)]


def mth(found: list[bytes]) -> bytes:
    """Section 2.1, of hashes of leaves."""
    if len(found) < 2:
        return found[0] if found else sha256(b"").digest()
    half = 1
    while half * 2 < len(found):
        half *= 2
    return node_hash(mth(found[:half]), mth(found[half:]))


def subtree(level: int, index: int) -> bytes:
    return mth([leaf_hash(b"%d" % number) for number in range(index << level, (index + 1) << level)])


def test_the_known_answers_of_the_rfc_family() -> None:
    """Of the inputs that certificate transparency logs are tested with."""
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    roots = {
        1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    }
    frontier = Frontier()
    for number, text in enumerate(inputs, 1):
        frontier.add(leaf_hash(bytes.fromhex(text)))
        if number in roots:
            assert frontier.root().hex() == roots[number]


def test_no_leaves_have_a_root_of_their_own() -> None:
    assert Frontier().root() == EMPTY == root_of(subtree, 0)


@given(SIZES)
def test_the_frontier_and_the_subtrees_give_the_root_of_the_definition(size: int) -> None:
    frontier = Frontier()
    for leaf in leaves(size):
        frontier.add(leaf)
    assert frontier.root() == root_of(subtree, size) == mth(leaves(size))
    assert len(frontier.peaks) == size.bit_count()


@given(SIZES, st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_nothing_else_does(size: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, size - 1))
    leaf, root = leaf_hash(b"%d" % number), root_of(subtree, size)
    path = proof_path(subtree, number, size)
    assert path_root(leaf, number, size, path) == root
    assert path_root(leaf_hash(b"another"), number, size, path) != root
    assert path_root(leaf, number, size, [*path, EMPTY]) is None
    assert path_root(leaf, size, size, path) is None
    assert path_root(leaf, -1, size, path) is None
    if path:
        assert path_root(leaf, number, size, path[:-1]) != root
        changed = data.draw(st.integers(0, len(path) - 1))
        assert path_root(leaf, number, size, [*path[:changed], EMPTY, *path[changed + 1 :]]) != root
        other = data.draw(st.integers(0, size - 1).filter(lambda found: found != number))
        assert path_root(leaf, other, size, path) != root
