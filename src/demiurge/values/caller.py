"""The caller of a request: an actor, the actor's tenant and roles, and the transport that identified the actor.

A caller holds names only, never a credential. The transport (a process, a token) establishes the caller; no field of a
payload does. The record of a request keeps its caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.errors import InvalidValue

__all__ = ["NOBODY", "ROLES", "USER", "Caller"]

ROLES: Final = ("viewer", "agent", "approver", "chief", "user")
"""The roles that a world knows, see `docs/callers.md`; a policy may name others."""

MAX_ROLES: Final = 32
MAX_TEXT: Final = 256
MAX_ACTOR: Final = 1024
"""In characters. A unit is the actor of the events that it sends; its name holds a definition's name and a key."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The actor of a request, with tenant and roles.

    `actor`: e.g. `user` or `user:ada`, at most 1024 characters. `tenant`: for whom the actor acts; empty if a world has
    one tenant only. `roles`: at most 32, each of at most 256 characters; kept sorted and without repetitions.
    `transport`: what identified the actor, e.g. `python`, `terminal`, `http`. Raises InvalidValue for any other form.
    """

    actor: str
    tenant: str = ""
    roles: tuple[str, ...] = ()
    transport: str = ""

    def __post_init__(self) -> None:
        for name in ("actor", "tenant", "transport"):
            longest = MAX_ACTOR if name == "actor" else MAX_TEXT
            if not isinstance(text := getattr(self, name), str) or len(text) > longest:
                raise InvalidValue(f"is a text of at most {longest} characters", path=name)
        roles_given: object = self.roles
        if not isinstance(roles_given, tuple | list | set | frozenset) or not all(
            isinstance(each, str) for each in roles_given
        ):
            raise InvalidValue("is a list of role names", path="roles")
        roles = tuple(sorted(set(roles_given)))
        if len(roles) > MAX_ROLES or not all(1 <= len(role) <= MAX_TEXT for role in roles):
            raise InvalidValue(f"has at most {MAX_ROLES} names of 1 to {MAX_TEXT} characters", path="roles")
        object.__setattr__(self, "roles", roles)

    def has(self, *roles: str) -> bool:
        """Returns whether the caller has one of the roles. A `user` has every role."""
        return "user" in self.roles or any(role in self.roles for role in roles)

    def to_node(self) -> str | dict[str, Any]:
        """Returns the form in records: the actor's name alone if nothing else is known, else a map without empty
        fields."""
        more = {"tenant": self.tenant, "roles": list(self.roles), "transport": self.transport}
        known = {name: value for name, value in more.items() if value}
        return {"actor": self.actor, **known} if known else self.actor

    @classmethod
    def from_node(cls, node: str | Mapping[str, Any]) -> Caller:
        """Returns the caller that `to_node` wrote as `node`."""
        if isinstance(node, str):
            return cls(node)
        return cls(node["actor"], node.get("tenant", ""), tuple(node.get("roles", ())), node.get("transport", ""))


USER: Final = Caller("user", roles=("user",), transport="python")
"""The caller of a Python program that names no caller."""

NOBODY: Final = Caller("")
"""The caller of a derived record, which nobody asked for."""
