"""Workspace trees: writing makes a new version and leaves the old one whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.values.refs import Ref, ref_of
from demiurge.world.trees import EMPTY, TreeError, find, split, walk, write

SEGMENTS = st.sampled_from(["a", "b", "c.txt", "~d"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)


class Tree:
    def __init__(self) -> None:
        self.blobs = {ref_of(EMPTY): EMPTY}
        self.root = ref_of(EMPTY)

    def write(self, path: str, data: bytes) -> None:
        self.root, nodes = write(self.blobs.__getitem__, self.root, path, ref_of(data), len(data))
        self.blobs |= {ref_of(node): node for node in [*nodes, data]}

    def read(self, path: str, root: Ref | None = None) -> bytes | None:
        entry = find(self.blobs.__getitem__, root or self.root, path)
        return self.blobs[entry.ref] if entry is not None and entry.kind == "file" else None

    def names(self, path: str) -> list[str]:
        folder = find(self.blobs.__getitem__, self.root, path)
        assert folder is not None
        return [entry.path for entry in walk(self.blobs.__getitem__, folder)]


@given(st.lists(st.tuples(PATHS, st.binary(max_size=3)), max_size=12))
def test_a_tree_is_the_files_that_were_written_to_it_and_every_version_stays(steps: list[tuple[str, bytes]]) -> None:
    tree, files = Tree(), dict[str, bytes]()
    versions: list[tuple[Ref, dict[str, bytes]]] = []
    for path, data in steps:
        folders = {"/".join(p.split("/")[:n]) for p in files for n in range(1, len(p.split("/")))}
        above = {"/".join(path.split("/")[:n]) for n in range(1, len(path.split("/")))}
        if path in folders or above & set(files):
            with pytest.raises(TreeError):
                tree.write(path, data)
        else:
            tree.write(path, data)
            files[path] = data
        versions.append((tree.root, dict(files)))
    for root, then in versions:
        assert {path: tree.read(path, root) for path in then} == then
    assert tree.names("") == sorted({path.split("/")[0] for path in files})


def test_the_same_files_have_the_same_address_whatever_the_order() -> None:
    one, two = Tree(), Tree()
    for path in ("a/x", "b", "a/y"):
        one.write(path, path.encode())
    for path in ("a/y", "a/x", "b"):
        two.write(path, path.encode())
    assert one.root == two.root


def test_an_entry_has_its_whole_path_and_the_size_of_the_file() -> None:
    tree = Tree()
    tree.write("a/b/c.txt", b"123")
    entry = find(tree.blobs.__getitem__, tree.root, "a/b/c.txt")
    assert entry is not None
    assert (entry.path, entry.kind, entry.size) == ("a/b/c.txt", "file", 3)
    assert tree.names("a") == ["a/b"]
    assert find(tree.blobs.__getitem__, tree.root, "a/b/c.txt/d") is None
    assert find(tree.blobs.__getitem__, tree.root, "x") is None


@pytest.mark.parametrize(
    "path", ["/a", "a/", "a//b", "..", "a/../b", ".", "a/./b", "a b", "a\n", "é", "a" * 256, "a\\b", "\0"]
)
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    with pytest.raises(TreeError):
        split(path)
    with pytest.raises(TreeError):
        Tree().write(path, b"")


def test_the_root_is_no_file() -> None:
    assert split("") == []
    with pytest.raises(TreeError, match="needs a name"):
        Tree().write("", b"")
