"""Workspace trees: writing makes a new version and leaves the old one whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.values.refs import Ref, ref_of
from demiurge.world.trees import EMPTY, MAX_DEPTH, TreeError, annotate, diff, find, remove, split, walk, write

SEGMENTS = st.sampled_from(["a", "b", "c.txt", "~d"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)


class Tree:
    def __init__(self) -> None:
        self.blobs = {ref_of(EMPTY): EMPTY}
        self.root = ref_of(EMPTY)

    def write(self, path: str, data: bytes) -> None:
        self.root, nodes = write(self.blobs.__getitem__, self.root, path, ref_of(data), len(data))
        self.blobs |= {ref_of(node): node for node in [*nodes, data]}

    def take(self, changed: tuple[Ref, list[bytes]]) -> None:
        self.root, nodes = changed
        self.blobs |= {ref_of(node): node for node in nodes}

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


@given(st.lists(st.tuples(PATHS, st.binary(max_size=1)), max_size=8), st.lists(PATHS, max_size=8))
def test_a_comparison_names_the_files_that_differ_and_no_other(
    steps: list[tuple[str, bytes]], removed: list[str]
) -> None:
    tree, files = Tree(), dict[str, bytes]()
    versions: list[tuple[Ref, dict[str, bytes]]] = [(tree.root, {})]
    for path, data in steps:
        try:
            tree.write(path, data)
            files[path] = data
        except TreeError:
            pass
        versions.append((tree.root, dict(files)))
    for path in removed:
        if path in files:
            tree.take(remove(tree.blobs.__getitem__, tree.root, path))
            del files[path]
            assert tree.read(path) is None
        versions.append((tree.root, dict(files)))
    get = tree.blobs.__getitem__
    for (old, before), (new, after) in zip(versions, versions[::-1], strict=True):
        found = {c.path: (c.old, c.new) for c in diff(get, find(get, old, ""), find(get, new, "")) if c.kind == "file"}
        assert found == {
            path: tuple(ref_of(where[path]) if path in where else None for where in (before, after))
            for path in before | after
            if before.get(path) != after.get(path)
        }


def test_a_file_that_became_a_folder_is_gone_and_new() -> None:
    one, two = Tree(), Tree()
    one.write("a", b"1")
    two.write("a/b", b"1")
    get = (one.blobs | two.blobs).__getitem__
    found = sorted((c.path, c.kind, bool(c.new)) for c in diff(get, find(get, one.root, ""), find(get, two.root, "")))
    assert found == [("a", "dir", True), ("a", "file", False), ("a/b", "file", True)]


def test_equal_parts_are_not_opened() -> None:
    tree = Tree()
    tree.write("big/a", b"1")
    before = tree.root
    tree.write("small/b", b"1")
    get = tree.blobs.__getitem__
    hidden = find(get, before, "big")
    assert hidden is not None
    del tree.blobs[hidden.ref]
    assert {c.path for c in diff(get, find(get, before, ""), find(get, tree.root, ""))} == {"small", "small/b"}


def test_annotations_survive_what_happens_around_them() -> None:
    tree = Tree()
    get = tree.blobs.__getitem__
    tree.write("d/a", b"1")
    plain = tree.root
    for path in ("", "d", "d/a"):
        tree.take(annotate(get, tree.root, path, {"of": path}))
    tree.write("d/a", b"2")
    tree.write("d/b", b"3")
    tree.take(remove(get, tree.root, "d/b"))
    for path in ("", "d", "d/a"):
        entry = find(get, tree.root, path)
        assert entry is not None
        assert entry.annotations == {"of": path}
        tree.take(annotate(get, tree.root, path, {"of": None}))
    tree.write("d/a", b"1")
    assert tree.root == plain


def test_a_path_has_a_depth() -> None:
    assert len(split("/".join("a" * MAX_DEPTH))) == MAX_DEPTH
    with pytest.raises(TreeError, match="at most 64 segments"):
        split("/".join("a" * (MAX_DEPTH + 1)))
