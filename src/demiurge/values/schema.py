"""Named definitions and their validators. Every value is validated before it enters a journal.

A validator's message says where a value is wrong and what is expected there. It never quotes the value, which may be a
secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic_core import ErrorDetails, ValidationError

from demiurge.errors import InvalidValue, NotFound
from demiurge.values import cbor, projection
from demiurge.values.normal_form import compiled
from demiurge.values.refs import Ref
from demiurge.values.type_expr import Definitions, TypeExpr, kind_of, problems, type_problems

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_SHOWN = 5

_SENTENCES = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this type",
    "invalid_key": "has a field whose name is not text",
    "dict_type": "must be an object",
    "recursion_loop": "contains itself",
    "recursion_depth_exceeded": "is nested too deep",
    "surrogate": "has a name with a lone surrogate",
}


class Schemas:
    """A closed set of definitions, `{"demiurge/ChatEvent@1": {"variant": ...}}`.

    Raises InvalidValue (`invalid_schema`), whose message lists every problem, a line each: malformed names and types,
    refs to missing definitions, types that no finite value has.
    """

    def __init__(self, defs: Mapping[str, TypeExpr]) -> None:
        _raise_all(problems(defs))
        self._defs: Definitions = deepcopy(dict(defs))
        self._validators: dict[str, Validator] = {}
        self._fields: dict[str, dict[str, Validator]] = {}
        self.names: tuple[str, ...] = tuple(sorted(self._defs))

    def __contains__(self, name: object) -> bool:
        return name in self._defs

    def get(self, name: str) -> TypeExpr:
        """Returns the type of the definition `name`. Raises NotFound."""
        if name not in self._defs:
            raise NotFound(f"There is no schema {name}.")
        return self._defs[name]

    def validator(self, schema: str | TypeExpr) -> Validator:
        """Returns the validator of a definition, which is cached, or of a type that refers to definitions, which is
        compiled each time.

        Raises NotFound for an unknown name, InvalidValue (`invalid_schema`) for a malformed type.
        """
        if not isinstance(schema, str):
            _raise_all(list(type_problems(schema, self._defs, "type")))
            return Validator(deepcopy(dict(schema)), self._defs)
        found = self._validators.get(schema)
        if found is None:
            found = self._validators[schema] = Validator(self.get(schema), self._defs)
        return found

    def fields(self, schema: str) -> Mapping[str, Validator]:
        """Returns a validator for each field of a definition that is a record, in canonical order; cached.

        Raises NotFound.
        """
        found = self._fields.get(schema)
        if found is None:
            record = self.get(schema)["record"]
            names = sorted(record, key=cbor.encode_item)
            found = self._fields[schema] = {name: Validator(record[name], self._defs) for name in names}
        return found


class Validator:
    """The validator of one well-formed type; made by `Schemas.validator`."""

    __slots__ = ("_check", "_collect", "_defs", "_expr", "has_refs")

    def __init__(self, expr: TypeExpr, defs: Definitions) -> None:
        self._expr = expr
        self._defs = defs
        self._check = compiled(expr, defs).validate_python
        self._collect = projection.ref_collector(expr, defs)
        self.has_refs = self._collect is not None

    def normalise(self, value: object) -> Any:
        """Returns the normal form of `value` (see `normal_form`).

        Of a Vector only the items that no `root` call has covered yet are checked, and the result is a Vector. Raises
        InvalidValue with the path of the first problem, and the number and paths of the others.
        """
        try:
            return self._check(value)
        except ValidationError as problem:
            found = [(self._path(error["loc"]), _sentence(error)) for error in problem.errors(**_QUIET)]
        except UnicodeEncodeError:
            found = [("", _SENTENCES["surrogate"])]
        (path, sentence), *others = found
        if others:
            shown = ", ".join(path or "the value itself" for path, _ in others[:_SHOWN])
            more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
            sentence += f" (also wrong: {shown}{more})"
        raise InvalidValue(sentence, path=path)

    def to_json(self, value: Any) -> Any:
        """Returns a value in normal form as JSON that normalises to it again.

        Bytes become base64 text; integers beyond ±(2^53 - 1) and integer map keys become decimal text.
        """
        return projection.to_json(value, self._expr, self._defs)

    def part_to_json(self, value: Any, only: projection.Only) -> Any:
        """Returns a part of a value in normal form as JSON, at the cost of that part. Raises InvalidValue
        (`bad_part`)."""
        return projection.part_to_json(value, self._expr, self._defs, only)

    def refs(self, value: Any) -> list[Ref]:
        """Returns every `hash` leaf of a value in normal form, in order, repetitions included."""
        out: list[Ref] = []
        if self._collect is not None:
            self._collect(value, out)
        return out

    def _path(self, loc: tuple[int | str, ...]) -> str:
        """Returns pydantic-core's location, which has an extra step for a variant's tag and a list's branch, as a
        path."""
        out = ""
        expr: TypeExpr | None = self._expr
        steps = list(loc)
        while steps:
            step = steps.pop(0)
            kind, body = ("", {}) if expr is None else kind_of(self._past_refs(expr))
            if kind == "map" and steps == ["[key]"]:
                return f"{out}[key]".removeprefix(".")  # a wrong key is not quoted
            if kind in ("variant", "list"):
                tag, step = step, steps.pop(0) if steps else ""
                expr = body if kind == "list" else body[tag] if step == "$value" else None
            elif kind == "record":
                expr = body.get(step)
            elif kind:
                expr = body["value"] if kind == "map" else body
            out += _step(step)
        return out.removeprefix(".")

    def _past_refs(self, expr: TypeExpr) -> TypeExpr:
        while (found := kind_of(expr))[0] in ("ref", "option"):
            expr = self._defs[found[1]] if found[0] == "ref" else found[1]
        return expr


_QUIET: Any = {"include_url": False, "include_context": False, "include_input": False}


def _sentence(error: ErrorDetails) -> str:
    return _SENTENCES.get(error["type"], error["msg"])


def _step(step: int | str) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step in ("$value", "$tag") or _WORD.fullmatch(step):
        return f".{step}"
    return f"[{json.dumps(step)}]" if step.isprintable() and len(step) <= 64 else "[...]"


def _raise_all(found: list[str]) -> None:
    if found:
        count = "One problem" if len(found) == 1 else f"{len(found)} problems"
        lines = "\n".join(f"  {problem}" for problem in found)
        raise InvalidValue(f"{count} in the schemas:\n{lines}", code="invalid_schema")
