"""Secrets: names in the journal, values only in the copy that an adapter is handed.

A `sys/TextOrSecretRef@1` names `alias@version`; the manifest in force binds it to places. They are asked in
their order, at dispatch and not before: one where nothing is is passed over, one that can't be trusted or read stops
the search. What was found is never stored, logged or put into an error; the receipt says that it was handed out, with
a digest that nobody can check guesses against without this world's key.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.secret_file import read_secret
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.world.effect import EffectCall
from demiurge.world.manifest import DeclaredSecret, Manifest

__all__ = ["FoundBinding", "Secrets", "how_to_set"]

DIGEST_DIGITS = 16

DigestKey = Callable[[], bytes]
"""The key that digests of this world's secrets are made with; made by the first call. Raises Unavailable."""

Places = Callable[[str], bool]
"""Says of a binding whether it may be asked."""


def _anywhere(_binding: str) -> bool:
    return True


class FoundBinding(NamedTuple):
    """A binding of a secret as it was found: `state` is `found`, `absent`, or `refused` for the reason `why`."""

    binding: str
    state: str
    why: str = ""


class Secrets:
    """Finds secrets in an environment, in files and in a vault. Without a `digest_key` receipts hold no digests."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        vault: SecretVault | None = None,
        digest_key: DigestKey | None = None,
    ) -> None:
        self._environment, self._digest_key = environment, digest_key
        self.vault = vault

    def inject(self, call: EffectCall, value: Mapping[str, Any] | None, *, may: Places = _anywhere) -> str:
        """The text of the secret that `value` names, for this performance alone; looked for only where it `may` be.

        Raises Unavailable: `secret_unavailable`, with what to set (also for a literal, which would be journaled), or
        `secret_not_allowed` (this grant or plan may not have it).
        """
        declared = _declared(call, value, may)
        text = self._handed(call, declared)
        if text is None:
            raise _missing(f"The secret {declared} has no value: {how_to_set(declared)}.")
        return text

    def offer(self, call: EffectCall, value: Mapping[str, Any] | None, *, may: Places = _anywhere) -> str | None:
        """As `inject`, for what does without: None when nothing is found."""
        return self._handed(call, _declared(call, value, may))

    def _handed(self, call: EffectCall, secret: DeclaredSecret) -> str | None:
        found = self.find(secret)
        if found is None:
            return None
        assert secret.version is not None
        call.injections.add(self.said(call, secret.alias, secret.version, found), found)
        return found.reveal()

    def find(self, secret: DeclaredSecret) -> Secret | None:
        """Its value. Raises Unavailable, Damaged for a place that is refused."""
        for binding in secret.bindings:
            found = self._at(binding, secret.version)
            if found is not None:
                return found
        return None

    def every(self, manifest: Manifest) -> Iterator[Secret]:
        """The values of all secrets that a manifest declares, for whoever keeps them out of a text; those that can't be
        found or read are left out."""
        for declared in manifest.secrets.values():
            for secret in self.versions(declared):
                with suppress(DemiurgeError):
                    found = self.find(secret)
                    if found is not None:
                        yield found

    def look(self, secret: DeclaredSecret) -> Iterator[FoundBinding]:
        """Every place of a secret; raises nothing."""
        for binding in secret.bindings:
            try:
                found = self._at(binding, secret.version)
            except DemiurgeError as error:
                yield FoundBinding(binding, "refused", error.message)
            else:
                yield FoundBinding(binding, "absent" if found is None else "found")

    def digest(self, alias: str, value: Secret) -> str | None:
        """Tells two values of an alias apart; None without a key. Raises Unavailable."""
        if self._digest_key is None:
            return None
        text = f"{alias}\0{value.reveal()}".encode()
        return hmac.digest(self._digest_key(), text, "sha256").hex()[:DIGEST_DIGITS]

    def said(self, call: EffectCall, alias: str, version: int, value: Secret) -> Mapping[str, Any]:
        """What a receipt says of a value: `{alias, version, digest?}`. Raises Unavailable: there is no outcome yet."""
        digest = self.digest_for(call, alias, value)
        said = {"alias": alias, "version": version}
        return said if digest is None else {**said, "digest": digest}

    def digest_for(self, call: EffectCall, alias: str, value: Secret) -> str | None:
        """As `digest`, for an effect. Raises Unavailable: there is no outcome yet."""
        try:
            return self.digest(alias, value)
        except Unavailable as error:
            call.stalled = error  # the world's own folder failed: as when a blob can't be stored
            raise

    def versions(self, secret: DeclaredSecret) -> list[DeclaredSecret]:
        """The secret itself; of `alias@*` each version that the vault has, or itself when that has none."""
        if secret.version is not None or self.vault is None:
            return [secret]
        try:
            stored = self.vault.names()
        except DemiurgeError:
            return [secret]  # looking at it says why
        found = {number for name, number in stored if f"vault:{name}" in secret.bindings}
        return [replace(secret, version=number) for number in sorted(found)] or [secret]

    def _at(self, binding: str, version: int | None) -> Secret | None:
        scheme, _, where = binding.partition(":")
        match scheme:
            case "env":
                return self._variable(where)
            case "file":
                return read_secret(self._path(where))
            case "vault":
                return self.vault.get(where, version or 0) if self.vault is not None else None
            case _:
                return None

    def _variable(self, name: str) -> Secret | None:
        text = self._environment.get(name, "").strip()
        if any("\ud800" <= character <= "\udfff" for character in text):
            text = ""  # a traceback may show this frame's variables
            raise _missing(f"{name} in the environment holds bytes that are not UTF-8 text: set it again.")
        return Secret(text) if text else None

    def _path(self, where: str) -> Path:
        home = self._environment.get("HOME", "")
        return Path(home, where[2:]) if where.startswith("~/") and home else Path(where)


def how_to_set(secret: DeclaredSecret) -> str:
    """What to do so that a value is found, to follow a colon."""
    by_scheme: dict[str, list[str]] = {}
    for binding in secret.bindings:
        scheme, _, where = binding.partition(":")
        by_scheme.setdefault(scheme, []).append(where)
    ways = []
    if "env" in by_scheme:
        ways.append(f"set {' or '.join(by_scheme['env'])} in the environment")
    if "file" in by_scheme:
        ways.append(f"write it to {' or '.join(by_scheme['file'])} (mode 0600)")
    if "vault" in by_scheme:
        which = "" if secret.version in (1, None) else f" --version {secret.version}"
        ways.append(f"run `demiurge secrets set {by_scheme['vault'][0]}{which}`")
    return ", or ".join(ways) or "bind it to a place in the manifest"


def _declared(call: EffectCall, value: Mapping[str, Any] | None, may: Places) -> DeclaredSecret:
    """The secret that a parameter names, with those of its places where it `may` be. Raises Unavailable."""
    if value is None or value["$tag"] != "secret":
        raise _missing("A key must be named as a secret, never written out.")
    name = value["$value"]["alias"], value["$value"]["version"]
    declared = call.services.manifest.secret(*name)
    if declared is None or call.manifest.secret(*name) is None:
        raise _missing(f"There is no secret {name[0]}@{name[1]}.")
    problem = _not_allowed(call, call.services.manifest, declared)
    if problem:
        raise Unavailable(problem, code="secret_not_allowed")
    return replace(declared, bindings=tuple(binding for binding in declared.bindings if may(binding)))


def _not_allowed(call: EffectCall, manifest: Manifest, secret: DeclaredSecret) -> str:
    """Why this performance may not have the secret, by the manifest in force; empty when it may.

    A grant counts only while it is one for this effect: an older manifest could have given its name to another.
    """
    intent = call.intent
    if secret.allowed_caps is not None:
        grant, effect = manifest.grants.get(intent.grant), manifest.effects.get(intent.kind)
        fits = grant is not None and effect is not None and grant.cap_type == effect.cap_type
        if not fits or intent.grant not in secret.allowed_caps:
            return f"The secret {secret} is not for effects under the grant {intent.grant}."
    if secret.allowed_plans is not None:
        origin = intent.origin
        if origin["kind"] != "plan" or origin["name"] not in secret.allowed_plans:
            return f"The secret {secret} is not for what {origin['name']} asks for."
    return ""


def _missing(message: str) -> Unavailable:
    return Unavailable(message, code="secret_unavailable")
