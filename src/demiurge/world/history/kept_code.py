"""Kept code: a module reducer loaded from the source that is stored with its history (docs/architecture.md, rule 7).

Loading it runs a program out of a world's folder. So only code that the user permits is loaded: code that the user has
run before, or all of a world's code if the user says that it is trusted. A person who is given a world can look at it
without running its code.
"""

from __future__ import annotations

import sys
from types import ModuleType

from demiurge.errors import InvalidValue
from demiurge.values.refs import ref_of
from demiurge.world.reducer import Reducer

__all__ = ["kept_reducer"]


def kept_reducer(source: bytes, function: str = "reduce") -> Reducer:
    """Loads a module reducer from its kept source: a Python module with a function of this name, or else one named
    `reduce`.

    Only the module's own source is kept; its imports resolve to the present code, and replay shows whether that
    matters. Raises InvalidValue (`unchecked`) if the source is not such a module.
    """
    module = ModuleType(f"kept_{ref_of(source)[7:23]}")
    sys.modules[module.__name__] = module  # class creation looks the module up
    try:
        exec(compile(source, module.__name__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user permits it
        found = module.__dict__
        return Reducer(found[function if function in found else "reduce"], source)
    except Exception as error:
        raise InvalidValue(f"the kept source can't be run: {type(error).__name__}", code="unchecked") from error
    finally:
        del sys.modules[module.__name__]
