"""The code that a history ran on, from the source that is kept with it (architecture.md 2, rule 7).

To use it is to run a program out of a world's folder, so nobody does unless the user says that the folder is theirs:
whoever is handed a world looks at it without running what is in it.
"""

from __future__ import annotations

import sys
from types import ModuleType

from demiurge.errors import InvalidValue
from demiurge.values.refs import ref_of
from demiurge.world.reducer import Reducer

__all__ = ["kept_reducer"]


def kept_reducer(source: bytes) -> Reducer:
    """A reducer from its kept source: a Python module with a function `reduce`.

    Only the module's own source is kept; what it imports is as it is now, and replay finds out when that matters.
    Raises InvalidValue (`unchecked`) for a source that is no such module.
    """
    module = ModuleType(f"kept_{ref_of(source)[7:23]}")
    sys.modules[module.__name__] = module  # classes look their module up while they are made
    try:
        exec(compile(source, module.__name__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - asked for
        return Reducer(module.__dict__["reduce"], source)
    except Exception as error:
        raise InvalidValue(f"the kept source can't be run: {type(error).__name__}", code="unchecked") from error
    finally:
        del sys.modules[module.__name__]
