"""Makes the mutants of a copy of the tree (`tests/mutants.py`): the first steps of `mutmut run`, whose rest would start
pytest for every mutant. mutmut leaves functions with decorators alone, because a copy would be decorated again; with
`--decorated` they are changed as well, each copy without its decorators. Their parameters are not: a route is called
with every argument, by the defaults of the function that stands for all copies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

COPIED_AS_IS = ("classmethod", "staticmethod")
"""Decorators that mutmut copies itself."""


def main() -> None:
    if "--decorated" in sys.argv[1:]:
        include_decorated()
    mutmut = import_module("mutmut.__main__")
    mutmut.set_mutant_under_test("mutant_generation")
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.setup_source_paths()
    mutmut.create_mutants(1)


def include_decorated() -> None:
    """Has mutmut change functions with decorators. One that stands for all of them keeps the decorators."""
    mutation: Any = import_module("mutmut.mutation.file_mutation")
    skips, arranged = mutation.MutationVisitor._skip_node_and_children, mutation.function_trampoline_arrangement

    left_out: list[Any] = []

    def skips_undecorated(self: Any, node: Any) -> bool:
        if is_decorated(node):
            left_out.append(node.params)
            return bool(skips(self, without_decorators(node)))
        return any(node is each for each in left_out) or bool(skips(self, node))

    def arranged_bare(function: Any, mutants: Any, class_name: str | None) -> tuple[Sequence[Any], ...]:
        declared, (trampoline, *copies), assigned, names = arranged(function, mutants, class_name)
        if is_decorated(function):
            copies = [without_decorators(copy) for copy in copies]
        return declared, [trampoline, *copies], assigned, names

    mutation.MutationVisitor._skip_node_and_children = skips_undecorated
    mutation.function_trampoline_arrangement = arranged_bare


def is_decorated(node: Any) -> bool:
    """Returns whether a node of libcst is a function with decorators that mutmut would not copy."""
    names = [getattr(each.decorator, "value", "") for each in getattr(node, "decorators", ())]
    return type(node).__name__ == "FunctionDef" and bool(names) and (len(names) > 1 or names[0] not in COPIED_AS_IS)


def without_decorators(function: Any) -> Any:
    return function.with_changes(decorators=[])


if __name__ == "__main__":
    main()
