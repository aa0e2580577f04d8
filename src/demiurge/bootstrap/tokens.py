"""`world.tokens`: the tokens with which others call a world over HTTP."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.errors import InvalidValue, NotFound
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.values.durations import checked_duration
from demiurge.world.tokens import Token, TokenChange, token_digest

__all__ = ["NewToken", "Tokens"]

PREFIX: Final = "dmg_"
BYTES: Final = 32
LOGIN: Final = "login"
"""The actor of a login link."""
MAX_LABEL: Final = 200
DAY_NS: Final = 86400 * 10**9
SESSION_S: Final = 30 * 24 * 3600
"""How long the session of a browser is good for, in seconds."""
LOGIN_S: Final = 600
"""How long the code of a login link is good for, in seconds."""


class NewToken(NamedTuple):
    """A token that was just added, and its text, which nothing keeps."""

    token: Token
    secret: str


@dataclass
class Tokens:
    """The tokens of the world behind `backend`. Only a `user` may read or change them."""

    backend: Backend
    _known: dict[str, Token] = field(default_factory=dict)
    _next: int = 0
    _used: set[str] = field(default_factory=set)

    async def add(
        self,
        actor: str,
        roles: Sequence[str],
        *,
        tenant: str = "",
        label: str = "",
        days: float | None = None,
        is_session: bool = False,
    ) -> NewToken:
        """Adds a token for a caller, good for so many days (None: until it is revoked). Raises InvalidValue."""
        if not actor:
            raise InvalidValue("a token needs an actor", path="actor")
        if not roles:
            raise InvalidValue("a token needs a role", path="roles")
        if len(label) > MAX_LABEL:
            raise InvalidValue(f"has at most {MAX_LABEL} characters", path="label")
        secret = _new_secret()
        expires_ns = (
            None if days is None else SystemClock().now_ns() + int(checked_duration(days, "days", "days") * DAY_NS)
        )
        digest = token_digest(secret)
        add = self.backend.keep.add_token
        return NewToken(await add(digest, actor, list(roles), tenant, label, is_session, expires_ns), secret)

    async def add_session(self, caller: Caller) -> str:
        """Returns the secret of a new session of a browser, in which `caller` calls."""
        made = await self.add(
            caller.actor,
            caller.roles,
            tenant=caller.tenant,
            label="a browser",
            days=SESSION_S / 86400,
            is_session=True,
        )
        return made.secret

    async def add_login(self) -> str:
        """Returns a code with which one browser can log in as the user who serves the world, once, within
        `LOGIN_S`."""
        secret, expires_ns = _new_secret(), SystemClock().now_ns() + LOGIN_S * 10**9
        add = self.backend.keep.add_token
        await add(token_digest(secret), LOGIN, [], "", "a login link", False, expires_ns)
        return secret

    async def take_login(self, code: str) -> bool:
        """Returns whether a code of `add_login` is good, which it is once."""
        found = await self._found(code)
        if found is None or not found.is_login or found.id in self._used:
            return False
        self._used.add(found.id)
        await self.backend.keep.revoke_token(found.id)
        return True

    async def list(self) -> list[Token]:
        """Returns the tokens that are not revoked, oldest first, also those that have expired."""
        return sorted((await self._read()).values(), key=lambda token: token.created_ns)

    async def revoke(self, token_id: str) -> None:
        """Revokes a token; at once, for everybody. Raises NotFound."""
        if all(token.id != token_id for token in (await self._read()).values()):
            raise NotFound(f"There is no token {token_id}; `demiurge tokens ls` lists them.", code="no_token")
        await self.backend.keep.revoke_token(token_id)

    async def find(self, secret: str) -> Token | None:
        """Returns the token with this text, None when there is none that is good."""
        token = await self._found(secret)
        return None if token is None or token.is_login else token

    async def _found(self, secret: str) -> Token | None:
        digest = token_digest(secret)
        token = (await self._read()).get(digest)
        if token is None or not hmac.compare_digest(token.digest, digest):
            return None
        is_over = token.expires_ns is not None and token.expires_ns <= SystemClock().now_ns()
        return None if is_over else token

    async def _read(self) -> Mapping[str, Token]:
        """Returns the tokens by digest, as of now. Costs what changed since the last call."""
        read = self.backend.keep.tokens
        changes: list[TokenChange]
        if self.backend.owner:  # one look at the unit's head: a thread would cost more than the look
            changes = read(self._next)
        else:
            changes = await asyncio.to_thread(read, self._next)
        for change in changes:
            if change.added is not None:
                self._known[change.added.digest] = change.added
            elif change.id is not None:
                self._known = {digest: token for digest, token in self._known.items() if token.id != change.id}
            self._next = change.seq + 1
        return self._known


def _new_secret() -> str:
    return f"{PREFIX}{SystemEntropy().token(BYTES).hex()}"
