"""The arguments of a tool envelope: their names and their types, compared with the tool's JSON schema.

The comparison is strict: `"5"` and `3.0` are no integers, null stands for an argument that is left out, and a name is
compared letter by letter, except for a tool that declares other names of its arguments. Bounds of numbers and lengths
are left to the runner, which checks each call again with the tool's own types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["args_problem", "plain_args", "shown"]

MAX_SHOWN: Final = 60
"""The most characters of a model's own text that a detail quotes."""

_MAX_STEPS: Final = 20_000


def args_problem(schema: Mapping[str, Any], args: object) -> str | None:
    """Returns why `args` does not fit a tool's schema, None if it fits: `args-not-object`, or one of
    `missing-required:NAME`, `unknown-arg:NAME`, `invalid-type:NAME` and `invalid-enum:NAME`."""
    if not isinstance(args, Mapping):
        return "args-not-object"
    named, others = _properties(schema)
    required = schema.get("required")
    for name in required if isinstance(required, list | tuple) else ():
        if name not in args:
            return f"missing-required:{shown(name)}"
    for name, value in args.items():
        wanted = named.get(name, others)
        if wanted is False:
            return f"unknown-arg:{shown(name)}"
        if not _fits(schema, wanted, value, listed=False):
            return f"invalid-type:{shown(name)}"
        if not _fits(schema, wanted, value, listed=True):
            return f"invalid-enum:{shown(name)}"
    return None


def plain_args(
    schema: Mapping[str, Any], args: Mapping[str, Any], aliases: Mapping[str, str] | None
) -> tuple[dict[str, Any], str | None]:
    """Returns the arguments under the names of the schema, without each null that stands for an argument that is left
    out, and `unknown-arg:NAME` for a second spelling of one argument, else None.

    `aliases` are the other names of the tool's arguments. With it, white space around a name, case, `-` and spaces make
    no difference; None leaves each name as it is.
    """
    named, _ = _properties(schema)
    kept: dict[str, Any] = {}
    for spelling, value in args.items():
        name = spelling if aliases is None or spelling in named else _normal(spelling)
        name = (aliases or {}).get(name, name)
        if value is None and not (name in named and _fits(schema, named[name], None, listed=True)):
            continue
        if name in kept:
            return kept, f"unknown-arg:{shown(spelling)}"
        kept[name] = value
    return kept, None


def shown(text: str) -> str:
    """Returns the first characters of a model's own text, on one line and printable."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:MAX_SHOWN])


def _normal(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _properties(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    """Returns the schemas of the named arguments, and that of any other; False if there can be no other."""
    named = schema.get("properties")
    others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
    return named if isinstance(named, Mapping) else {}, others


class _TooMany(Exception):
    """There are too many values to compare."""


def _fits(root: Mapping[str, Any], schema: Any, value: Any, *, listed: bool) -> bool:
    """Returns whether a value has the type that `schema` names and, with `listed`, is one of the values that it lists.
    True where this check cannot tell: the runner checks again."""
    try:
        return _Check(root, listed).fits(schema, value)
    except (_TooMany, RecursionError):
        return True


class _Check:
    def __init__(self, root: Mapping[str, Any], listed: bool) -> None:
        self._root, self._listed, self._steps = root, listed, 0

    def fits(self, schema: Any, value: Any) -> bool:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooMany
        if not isinstance(schema, Mapping):
            return schema is not False
        if "$ref" in schema:
            return self.fits(self._definition(schema["$ref"]), value)
        if not _has_type(schema.get("type"), value) or (self._listed and not _is_listed(schema, value)):
            return False
        options = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(options, list | tuple) and not any(self.fits(option, value) for option in options):
            return False
        if isinstance(value, Mapping):
            named, others = _properties(schema)
            required = schema.get("required")
            if isinstance(required, list | tuple) and any(name not in value for name in required):
                return False
            return all(self.fits(named.get(name, others), part) for name, part in value.items() if part is not None)
        if isinstance(value, list):
            return all(self.fits(schema.get("items", True), part) for part in value)
        return True

    def _definition(self, ref: Any) -> Any:
        found: Any = self._root
        for step in ref.removeprefix("#/").split("/") if isinstance(ref, str) else ():
            found = found.get(step) if isinstance(found, Mapping) else None
        return True if found is None else found


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: type(value) is int,
    "null": lambda value: value is None,
    "number": lambda value: type(value) in (int, float),
    "object": lambda value: isinstance(value, Mapping),
    "string": lambda value: isinstance(value, str),
}


def _has_type(wanted: Any, value: Any) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(names, list | tuple) or not all(name in _TYPES for name in names):
        return True
    return any(_TYPES[name](value) for name in names)


def _is_listed(schema: Mapping[str, Any], value: Any) -> bool:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list | tuple):
        return True
    return any(each == value and isinstance(each, bool) == isinstance(value, bool) for each in values)
