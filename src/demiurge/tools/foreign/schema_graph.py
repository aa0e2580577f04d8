"""Computes how much work a foreign JSON Schema can cause for a value, before any of it is done.

Forty lines of schema can ask for 2^40 steps: definitions that refer to each other twice, arms of a union that
contain the same union. A validator that begins such a check never ends. So the schema is read as a graph of
subschemas, and the steps are counted on the graph. The count multiplies where the work would, and costs little.

The count is an upper bound, in steps of some ten nanoseconds. It ignores what a subschema decides, so it includes
every arm of a union, and for a key both its own subschema and those for other keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import Any

from demiurge.errors import InvalidValue

__all__ = ["SchemaGraph", "SchemaNode", "as_uri", "json_depth", "json_size"]

_HERE = ("$ref", "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then")
"""Keywords whose subschemas check the same value."""
_MEMBERS = ("additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties")
_ITEMS = ("additionalItems", "contains", "items", "prefixItems", "unevaluatedItems")
_MAPS = ("dependencies", "dependentSchemas", "patternProperties")
"""Keywords whose value is a map to schemas, not a schema or a list of schemas."""
_EXACT = ("contains", "if", "not", "oneOf")
"""Keywords for which a laxer subschema makes the whole schema stricter."""
_LISTS = ("const", "dependentRequired", "enum", "required")
_PER_CHARACTER = 8
"""The steps that a pattern may take for a character."""
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_NOT_IN_URI = re.compile(r"[^A-Za-z0-9#/%!$&'()*+,;=:@?._~-]+")


@dataclass(eq=False, slots=True)
class SchemaNode:
    """One subschema. `schema` is its own dictionary, not a copy. `rank`: higher than that of any node in its `here`.

    `here`, `named`, `members`, `items`: subschemas for the same value, for the property of that name, for any
    property, for any item. `exact`: those of them that must not be made laxer."""

    schema: dict[str, Any]
    cost: int = 1
    key_patterns: int = 0
    rank: int = 0
    here: list[SchemaNode] = field(default_factory=list)
    named: dict[str, SchemaNode] = field(default_factory=dict)
    members: list[SchemaNode] = field(default_factory=list)
    items: list[SchemaNode] = field(default_factory=list)
    exact: list[SchemaNode] = field(default_factory=list)

    def below(self) -> Iterator[SchemaNode]:
        """Yields all direct subschemas."""
        yield from self.here
        yield from self.named.values()
        yield from self.members
        yield from self.items


class SchemaGraph:
    """The subschemas that apply to a value and its parts, linked by `$ref` and by keyword.

    Raises InvalidValue for a `$ref` that does not lead to a place in this document, for `$dynamicRef` and
    `$recursiveRef`, and for a subschema that refers to itself for the same value."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._nodes: dict[int, SchemaNode] = {}
        self._waiting: list[SchemaNode] = []
        self._any = SchemaNode({})
        self.root = self._node(document)
        while self._waiting:
            self._connect(self._waiting.pop())
        if any("$ref" in node.schema for node in self.nodes):
            for node in self.nodes:
                if node is not self.root:
                    self._refuse_other_base(node.schema)
        self._rank()
        self.unfolded = self._unfold()
        """The steps for a value if every node is visited once; None if the schema contains itself."""

    @property
    def nodes(self) -> Iterable[SchemaNode]:
        return self._nodes.values()

    def names(self) -> frozenset[str]:
        """Returns every property that the schema declares anywhere."""
        return frozenset(name for node in self.nodes for name in node.named)

    def exact(self) -> set[SchemaNode]:
        """Returns the nodes that must not be made laxer, and all nodes below them."""
        found: set[SchemaNode] = set()
        waiting = [node for each in self.nodes for node in each.exact]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting.extend(node.below())
        return found

    def steps(self, value: Any, limit: int, *, matching: bool = True) -> int:
        """Returns the steps for `value`, which is JSON; some number above `limit` if there are more. Without
        `matching`, the steps of patterns are not counted."""
        total = 0
        waiting: list[tuple[Any, dict[SchemaNode, int]]] = [(value, {self.root: 1})]
        while waiting and total <= limit:
            value, counts = waiting.pop()
            counts = _spread(counts)
            total += sum(count * _cost(node, value, matching) for node, count in counts.items())
            if isinstance(value, dict):
                waiting.extend((item, _for_key(counts, key)) for key, item in value.items())
            elif isinstance(value, list):
                inner = _sum((child, count) for node, count in counts.items() for child in node.items)
                waiting.extend((item, inner) for item in value)
        return total

    def _node(self, schema: Any) -> SchemaNode:
        if isinstance(schema, bool):
            return self._any
        if not isinstance(schema, dict):
            raise InvalidValue("a subschema must be an object or a boolean")
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = SchemaNode(schema)
            self._waiting.append(node)
        return node

    def _connect(self, node: SchemaNode) -> None:
        schema = node.schema
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                raise InvalidValue(f"'{keyword}' is not supported")
        for keywords, places in ((_HERE, node.here), (_MEMBERS, node.members), (_ITEMS, node.items)):
            for keyword in keywords:
                found = [self._node(child) for child in self._subschemas(keyword, schema)]
                places.extend(found)
                if keyword in _EXACT:
                    node.exact.extend(found)
        node.named.update((name, self._node(child)) for name, child in _map(schema, "properties").items())
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.here *= 3  # evaluated again, and slowly, to find what they cover
        node.key_patterns = len(_map(schema, "patternProperties"))
        node.cost += sum(json_size(schema[keyword]) for keyword in _LISTS if keyword in schema)
        node.cost += _PER_CHARACTER * (node.key_patterns + ("pattern" in schema))

    def _subschemas(self, keyword: str, schema: Mapping[str, Any]) -> Iterator[Any]:
        if keyword not in schema:
            return
        found = schema[keyword]
        if keyword == "$ref":
            yield self._target(found)
        elif keyword in _MAPS:
            yield from (child for child in _map(schema, keyword).values() if not isinstance(child, list))
        elif isinstance(found, list):
            yield from found
        else:
            yield found

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise InvalidValue("a '$ref' must lead to a place in the same schema, written '#/...'")
        place: Any = self._document
        for part in _unescaped(reference).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(place, dict) and key in place:
                place = place[key]
            elif isinstance(place, list) and key in map(str, range(len(place))):
                place = place[int(key)]
            else:
                raise InvalidValue("a '$ref' leads nowhere")
            self._refuse_other_base(place)
        return place

    def _refuse_other_base(self, place: Any) -> None:
        """Raises InvalidValue for an inner `$id` (`id` in draft 4), below which a reference has another base."""
        if isinstance(place, dict) and any(isinstance(place.get(keyword), str) for keyword in ("$id", "id")):
            raise InvalidValue("a '$ref' in a schema with an inner '$id' is not supported")

    def _rank(self) -> None:
        try:
            order = TopologicalSorter({node: node.here for node in self.nodes}).static_order()
            for rank, node in enumerate(order):
                node.rank = rank
        except CycleError:
            raise InvalidValue("a subschema refers to itself without looking further into the value") from None

    def _unfold(self) -> int | None:
        try:
            order = list(TopologicalSorter({node: list(node.below()) for node in self.nodes}).static_order())
        except CycleError:
            return None
        sizes: dict[SchemaNode, int] = {}
        for node in order:
            sizes[node] = node.cost + sum(sizes[child] for child in node.below())
        return sizes[self.root]


def _map(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    found = schema.get(keyword, {})
    if not isinstance(found, Mapping):
        raise InvalidValue(f"'{keyword}' is an object")
    return found


def _unescaped(reference: str) -> str:
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), reference)


def as_uri(reference: str) -> str:
    """Returns a `$ref` with characters that a URI may not have, such as letters of other scripts, percent-encoded."""
    return _NOT_IN_URI.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), reference)


def json_size(value: Any) -> int:
    """Returns how many values a JSON value consists of, itself included."""
    return sum(map(len, _levels(value)))


def json_depth(value: Any) -> int:
    """Returns how deeply arrays and objects are nested in a JSON value, itself included: 0 for a scalar."""
    return sum(any(isinstance(node, dict | list) for node in level) for level in _levels(value))


def _levels(value: Any) -> Iterator[list[Any]]:
    level = [value]
    while level:
        yield level
        lists = (node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list))
        level = [item for children in lists for item in children]


def _spread(counts: dict[SchemaNode, int]) -> dict[SchemaNode, int]:
    """Returns the counts with all nodes that check the same value. A node's count is complete before it is added to
    its children."""
    if not any(node.here for node in counts):
        return counts
    spread = dict(counts)
    waiting = [(-node.rank, id(node), node) for node in counts]
    heapify(waiting)
    while waiting:
        node = heappop(waiting)[2]
        for child in node.here:
            if child not in spread:
                spread[child] = 0
                heappush(waiting, (-child.rank, id(child), child))
            spread[child] += spread[node]
    return spread


def _cost(node: SchemaNode, value: Any, matching: bool) -> int:
    if matching and isinstance(value, str) and "pattern" in node.schema:
        return node.cost + _PER_CHARACTER * len(value)
    if matching and isinstance(value, dict) and node.key_patterns:
        return node.cost + _PER_CHARACTER * node.key_patterns * sum(map(len, value))
    return node.cost


def _for_key(counts: Mapping[SchemaNode, int], key: str) -> dict[SchemaNode, int]:
    return _sum(
        (child, count)
        for node, count in counts.items()
        for child in (*node.members, *((node.named[key],) if key in node.named else ()))
    )


def _sum(counts: Iterable[tuple[SchemaNode, int]]) -> dict[SchemaNode, int]:
    total: dict[SchemaNode, int] = {}
    for node, count in counts:
        total[node] = total.get(node, 0) + count
    return total
