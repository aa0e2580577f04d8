"""The code that a history ran on, from the source that is kept with it (docs/architecture.md, rule 7).

To use it is to run a program out of a world's folder, so only what the user lets be run is: what they have run before,
or whatever the world keeps if they say that they trust it. Whoever is handed a world looks at it without running what
is in it.
"""

from __future__ import annotations

import sys
from types import ModuleType

from demiurge.errors import InvalidValue
from demiurge.values.refs import ref_of
from demiurge.world.reducer import Reducer

__all__ = ["kept_reducer"]


def kept_reducer(source: bytes, function: str = "reduce") -> Reducer:
    """A reducer from its kept source: a Python module with this function, or else one that is called `reduce`.

    Only the module's own source is kept; what it imports is as it is now, and replay finds out when that matters.
    Raises InvalidValue (`unchecked`) for a source that is no such module.
    """
    module = ModuleType(f"kept_{ref_of(source)[7:23]}")
    sys.modules[module.__name__] = module  # classes look their module up while they are made
    try:
        exec(compile(source, module.__name__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - asked for
        found = module.__dict__
        return Reducer(found[function if function in found else "reduce"], source)
    except Exception as error:
        raise InvalidValue(f"the kept source can't be run: {type(error).__name__}", code="unchecked") from error
    finally:
        del sys.modules[module.__name__]
