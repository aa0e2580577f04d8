"""The invariants of seed 003 that are about where things are, each by its number and name; read off the source."""

import ast
from collections.abc import Callable, Iterator

from tests.conventions.source_files import NAMES, nodes, tree

from demiurge.world.effect_kinds import FAMILIES


def files_with(found: Callable[[ast.AST], bool]) -> set[str]:
    return {name for name in NAMES if any(map(found, nodes(name)))}


def packages(files: set[str]) -> set[str]:
    return {name.partition("/")[0] for name in files}


def imported(name: str) -> Iterator[str]:
    for node in nodes(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _name(node: ast.AST) -> str:
    """`Tool` of `Tool`, `Tool[...]`, `Tool(...)` and `Tool.wrap`."""
    while isinstance(node, ast.Subscript | ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _defines_a_tool(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return any(_name(decorator) == "tool" for decorator in node.decorator_list)
    return isinstance(node, ast.Call) and _name(node.func).endswith("Tool") and isinstance(node.func, ast.Subscript)


def _makes(*names: str) -> Callable[[ast.AST], bool]:
    return lambda node: isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _class(name: str) -> Callable[[ast.AST], bool]:
    return lambda node: isinstance(node, ast.ClassDef) and node.name == name


def test_invariant_02_tools_in_packages() -> None:
    """Tools are defined in the library's packages, each kind of thing in its own: none by the application around it."""
    assert packages(files_with(_defines_a_tool)) == {"tools", "prompts", "registry"}
    assert files_with(_class("ToolSpec")) == {"tools/spec.py"}
    assert files_with(_class("ToolInvocationRecord")) == {"tools/record.py"}
    encoders = files_with(lambda node: isinstance(node, ast.FunctionDef) and node.name == "encode_tools")
    assert packages(encoders) == {"wire", "models"}  # a small local model has a format of its own


def test_invariant_06_graphs_are_not_the_runtimes_business() -> None:
    """Who loops around a model is an application, somebody else's framework, or `demiurge.agents`: the library imports
    no framework, and nothing else in it asks a model again because of what a tool said."""
    for name in NAMES:
        roots = {module.partition(".")[0] for module in imported(name)}
        assert not {root for root in roots if root.startswith(("langchain", "langgraph"))}, name
    generates = files_with(lambda node: isinstance(node, ast.Attribute) and node.attr == "generate")
    assert generates == {"bootstrap/models.py", "models/json_tools.py", "testing/cassette.py"}
    loop = "agents/exchange.py"
    asks = files_with(_makes("ask_model"))
    assert asks == {loop, "world/effects/llm.py"}
    for name in (generates | asks) - {loop}:
        assert "ToolRunner" not in ast.dump(tree(name))


def test_invariant_09_binding_in_composition_root() -> None:
    """Tools meet the adapters behind their capabilities in `bootstrap`; a runner is made where a call is performed; and
    only the entry points know which tools are shipped. `testing` composes everything, for tests."""
    assert packages(files_with(_makes("shipped_adapters", "WorldParts", "ModelClient"))) == {"bootstrap", "testing"}
    adapters = {family.adapter.partition(":")[2] for family in FAMILIES}
    assert not files_with(_makes(*adapters))
    assert files_with(_makes("capabilities")) == {"world/effects/tool_call.py"}
    shipped = {name for name in NAMES if "demiurge.tools.core" in imported(name)}
    assert packages(shipped) - {"tools"} <= {"bootstrap", "cli", "testing"}
    makers = {"prompts/executor.py", "testing/crash/child.py", "world/effects/tool_call.py"}
    assert files_with(_makes("ToolRunner")) == makers
    defining = files_with(_defines_a_tool)
    capabilities = {f.capability.entry_point.partition(":")[2] for f in FAMILIES if f.capability is not None}
    assert not defining & files_with(_makes("SystemClock", "SystemEntropy", "ResourceRegistry", *capabilities))
