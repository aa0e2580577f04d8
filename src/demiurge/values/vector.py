"""A persistent list: versions share their common parts in memory and in storage.

Items sit in leaves of 16, leaves under nodes of 32; the last, unfinished leaf (the tail) stands apart. An append copies
the tail, and every sixteenth time one path of the tree. `root` has only these parts to write: each chunk keeps its
digest, so the cost of a step does not grow with the list. The shape depends on the length alone, so equal lists have
equal roots.

Never change an item in place: other versions share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar, overload

from demiurge.errors import Damaged, DemiurgeError, InvalidValue
from demiurge.values import cbor
from demiurge.values.refs import Ref, parse_ref, ref_digest, ref_from_digest

T = TypeVar("T")
Get = Callable[[Ref], bytes]
Lost = Callable[[DemiurgeError], object]

_LEAF = 16
_FAN = 32


class _Source(NamedTuple):
    get: Get
    lost: Lost


class _Node:
    """A chunk: the items of a leaf, or the nodes below.

    `digest` is set once the chunk was written; `load` fetches children that are not in memory. `encoded` holds the
    bytes of a tail's first items, so that each item is encoded once on its way into a full leaf.
    """

    __slots__ = ("_children", "digest", "encoded", "load")

    def __init__(
        self,
        children: tuple[Any, ...] | None,
        *,
        encoded: tuple[bytes, ...] = (),
        digest: bytes | None = None,
        load: Callable[[], tuple[Any, ...]] | None = None,
    ) -> None:
        self._children = children
        self.encoded = encoded
        self.digest = digest
        self.load = load

    @property
    def children(self) -> tuple[Any, ...]:
        if self._children is None:
            assert self.load is not None
            self._children = self.load()
        return self._children


_EMPTY = _Node(())


class Vector(Sequence[T]):
    """A persistent sequence: each change returns a new one. Equal to any sequence of equal items."""

    __slots__ = ("_length", "_levels", "_tail", "_top")
    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash

    def __init__(self) -> None:
        self._length = 0
        self._levels = 0
        self._top: _Node | None = None
        self._tail = _EMPTY

    @classmethod
    def of(cls, items: Iterable[T] = ()) -> Vector[T]:
        return cls().extend(items)

    def append(self, item: T) -> Vector[T]:
        """Returns this list and one more item, in O(log n)."""
        return self._with_tail((*self._tail.children, item))

    def extend(self, items: Iterable[T]) -> Vector[T]:
        """Returns this list and `items`, adding leaf by leaf."""
        vector, rest = self, iter(items)
        while batch := tuple(islice(rest, _LEAF - len(vector._tail.children))):
            vector = vector._with_tail(vector._tail.children + batch)
        return vector

    def _with_tail(self, items: tuple[T, ...]) -> Vector[T]:
        leaf = _Node(items, encoded=self._tail.encoded)
        after: Vector[T] = Vector()
        after._length = self._length - len(self._tail.children) + len(items)
        after._levels, after._top, after._tail = self._levels, self._top, leaf
        if len(items) == _LEAF:
            after._tail = _EMPTY
            full = self._length // _LEAF
            if self._top is None:
                after._top = leaf
            elif full == _FAN**self._levels:
                after._top = _Node((self._top, _spine(leaf, self._levels)))
                after._levels += 1
            else:
                after._top = _push(self._top, self._levels, full, leaf)
        return after

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """Returns an item by position, counted from the end if negative; a list for a slice. Raises IndexError."""
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self._length))]
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError("vector index out of range")
        item: T = self._leaf(at // _LEAF).children[at % _LEAF]
        return item

    def _leaf(self, number: int) -> _Node:
        if number == self._length // _LEAF or self._top is None:
            return self._tail
        node = self._top
        for level in range(self._levels - 1, -1, -1):
            node = node.children[number // _FAN**level % _FAN]
        return node

    def _leaves(self) -> Iterator[_Node]:
        if self._top is not None:
            yield from _leaves(self._top, self._levels)
        yield self._tail

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(leaf.children for leaf in self._leaves())

    def __reversed__(self) -> Iterator[T]:
        for number in range(self._length // _LEAF, -1, -1):
            yield from reversed(self._leaf(number).children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes | bytearray):
            return NotImplemented
        return len(other) == self._length and all(a is b or a == b for a, b in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<Vector of {self._length}>"

    def replace_unwritten(self, change: Callable[[tuple[T, ...]], Iterable[T]]) -> Vector[T]:
        """Returns the same list with `change` applied to every run of items that no `root` call has covered yet.

        `change` returns as many items as it is given. A list without such items is returned itself.
        """
        top = None if self._top is None else _changed(self._top, self._levels, change)
        tail = _changed(self._tail, 0, change)
        if top is self._top and tail is self._tail:
            return self
        after: Vector[T] = Vector()
        after._length, after._levels, after._top, after._tail = self._length, self._levels, top, tail
        return after

    def root(self) -> tuple[dict[str, Any], dict[Ref, bytes]]:
        """Returns a small node that stands for this list, and the chunks to be stored before it.

        The node is `{"n": length, "levels": above the leaves, "top": Ref | None, "tail": Ref | None}`. The chunks are
        those that no earlier `root` call returned, be it of this list or of one that shares chunks with it: the earlier
        caller must have stored them, or kept none of those lists. After one append to a written list there is the tail,
        and every sixteenth time one node per level. Raises InvalidValue (`bad_cbor`) if an item is not plain data.
        """
        fresh: dict[Ref, bytes] = {}
        top = None if self._top is None else ref_from_digest(_written(self._top, self._levels, fresh))
        tail = ref_from_digest(_written(self._tail, 0, fresh)) if self._tail.children else None
        return {"n": self._length, "levels": self._levels, "top": top, "tail": tail}, fresh

    @classmethod
    def load(cls, node: Mapping[str, Any], get: Get, lost: Lost = lambda _error: None) -> Vector[T]:
        """Returns the list that `root` described; `get` fetches each chunk on first use.

        Raises InvalidValue (`bad_vector`) for a node that `root` cannot have made. Reading the list raises Damaged for
        a chunk that does not fit its place, and any error of `get`. `lost` is called with the error first, because code
        that reads a list may mistake the error for one of its own.
        """
        source = _Source(get, lost)
        vector: Vector[T] = cls()
        vector._length, vector._levels, top, tail = _parse_root(node)
        leaves, over = divmod(vector._length, _LEAF)
        if top is not None:
            vector._top = _stored(source, ref_digest(top), vector._levels, leaves, _LEAF)
        if tail is not None:
            vector._tail = _stored(source, ref_digest(tail), 0, 1, over)
        return vector


def _spine(leaf: _Node, levels: int) -> _Node:
    for _ in range(levels):
        leaf = _Node((leaf,))
    return leaf


def _push(node: _Node, level: int, number: int, leaf: _Node) -> _Node:
    """Returns a copy of `node` with `leaf` added as number `number`, the next one after the last."""
    below = level - 1
    at = number // _FAN**below % _FAN
    if at == len(node.children):
        return _Node((*node.children, _spine(leaf, below)))
    return _Node((*node.children[:at], _push(node.children[at], below, number, leaf)))


def _leaves(node: _Node, level: int) -> Iterator[_Node]:
    if level == 0:
        yield node
    else:
        for child in node.children:
            yield from _leaves(child, level - 1)


def _changed(node: _Node, level: int, change: Callable[[tuple[Any, ...]], Iterable[Any]]) -> _Node:
    if node.digest is not None or not node.children:
        return node
    if level:
        return _Node(tuple(_changed(child, level - 1, change) for child in node.children))
    known = len(node.encoded)
    return _Node((*node.children[:known], *change(node.children[known:])), encoded=node.encoded)


def _written(node: _Node, level: int, fresh: dict[Ref, bytes]) -> bytes:
    if node.digest is None:
        if level:
            data = cbor.encode([_written(child, level - 1, fresh) for child in node.children])
        else:
            known = len(node.encoded)
            encoded = (*node.encoded, *map(cbor.encode_item, node.children[known:]))
            data = cbor.array(encoded)
            node.encoded = encoded if len(encoded) < _LEAF else ()
        node.digest = sha256(data).digest()
        fresh[ref_from_digest(node.digest)] = data
    return node.digest


def _stored(source: _Source, digest: bytes, level: int, leaves: int, width: int) -> _Node:
    return _Node(None, digest=digest, load=partial(_fetched, source, digest, level, leaves, width))


def _fetched(source: _Source, digest: bytes, level: int, leaves: int, width: int) -> tuple[Any, ...]:
    try:
        return _read(source, digest, level, leaves, width)
    except DemiurgeError as error:
        source.lost(error)
        raise


def _read(source: _Source, digest: bytes, level: int, leaves: int, width: int) -> tuple[Any, ...]:
    """Returns the children of a stored chunk: `width` items of a leaf, or the nodes over `leaves` leaves."""
    ref = ref_from_digest(digest)
    try:
        chunk = cbor.decode(source.get(ref))
    except InvalidValue:
        chunk = None
    below = _FAN ** (level - 1) if level else 1
    expected = -(-leaves // below) if level else width
    if type(chunk) is not list or len(chunk) != expected:
        raise Damaged(f"{ref} is not the chunk that its list says it is.")
    if level == 0:
        return tuple(chunk)
    if not all(type(child) is bytes and len(child) == 32 for child in chunk):
        raise Damaged(f"{ref} is not the chunk that its list says it is.")
    sizes = [min(below, leaves - at * below) for at in range(expected)]
    return tuple(_stored(source, child, level - 1, size, width) for child, size in zip(chunk, sizes, strict=True))


def _parse_root(node: Mapping[str, Any]) -> tuple[int, int, Ref | None, Ref | None]:
    problem = InvalidValue("This is not the root node of a list.", code="bad_vector")
    if not isinstance(node, Mapping) or set(node) != {"n", "levels", "top", "tail"}:
        raise problem
    length, levels = node["n"], node["levels"]
    if type(length) is not int or type(levels) is not int or length < 0:
        raise problem
    top, tail = (None if node[end] is None else parse_ref(node[end]) for end in ("top", "tail"))
    leaves, over = divmod(length, _LEAF)
    depth = 0
    while _FAN**depth < leaves:
        depth += 1
    if levels != depth or (top is None) != (leaves == 0) or (tail is None) != (over == 0):
        raise problem
    return length, levels, top, tail
