"""Secrets: the journal holds their names; only the adapter that needs a value is handed it.

A `sys/TextOrSecretRef@1` names `alias@version`, and the manifest in force binds that name to places. The places are
searched in order, when the effect is dispatched and not before: an empty place is passed over, a place that cannot be
trusted or read ends the search. A value is never stored, logged or put into an error. The receipt says that the secret
was handed out, with a digest against which nobody can check guesses without this world's key.
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
from demiurge.world.connection_credentials import CONNECTION_ALIASES
from demiurge.world.effect import EffectCall
from demiurge.world.manifest import DeclaredSecret, Manifest
from demiurge.world.webhook_keys import WEBHOOK_ALIASES

__all__ = ["FoundBinding", "Secrets", "how_to_set"]

DIGEST_DIGITS = 16

DigestKey = Callable[[], bytes]
"""Returns the key for digests of this world's secrets, which the first call makes. Raises Unavailable."""

BindingFilter = Callable[[str], bool]
"""Returns whether a binding may be searched."""


def _anywhere(_binding: str) -> bool:
    return True


class FoundBinding(NamedTuple):
    """The state of one binding of a secret: `found`, `absent`, or `refused` for the reason `why`."""

    binding: str
    state: str
    why: str = ""


class Secrets:
    """Finds secrets in an environment, in files and in the secret vault. Without a `digest_key` receipts hold no
    digests."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        vault: SecretVault | None = None,
        digest_key: DigestKey | None = None,
    ) -> None:
        self._environment, self._digest_key = environment, digest_key
        self.vault = vault

    def inject(self, call: EffectCall, value: Mapping[str, Any] | None, *, may: BindingFilter = _anywhere) -> str:
        """Returns the text of the secret that `value` names, for this performance alone. Only bindings that `may`
        accepts are searched.

        Raises Unavailable: `secret_unavailable`, with what to set (also for a literal, which would be journaled), or
        `secret_not_allowed` (this grant or plan may not have it).
        """
        declared = _declared(call, value, may)
        text = self._hand_out(call, declared)
        if text is None:
            raise _missing(f"The secret {declared} has no value: {how_to_set(declared)}.")
        return text

    def inject_if_set(
        self, call: EffectCall, value: Mapping[str, Any] | None, *, may: BindingFilter = _anywhere
    ) -> str | None:
        """Returns the same as `inject`, but None if no value is found: for effects that can do without."""
        return self._hand_out(call, _declared(call, value, may))

    def _hand_out(self, call: EffectCall, secret: DeclaredSecret) -> str | None:
        """Finds a secret's value and notes for the receipt that it was handed out. Returns None if there is no
        value."""
        found = self.find(secret)
        if found is None:
            return None
        assert secret.version is not None
        call.injections.add(self.receipt_entry(call, secret.alias, secret.version, found), found)
        return found.reveal()

    def find(self, secret: DeclaredSecret) -> Secret | None:
        """Returns the secret's value, or None. Raises Unavailable or Damaged for a place that cannot be trusted or
        read."""
        for binding in secret.bindings:
            found = self._read_binding(binding, secret.version)
            if found is not None:
                return found
        return None

    def values(self, manifest: Manifest) -> Iterator[Secret]:
        """Yields the values of all secrets that a manifest declares, so that a caller can mask them. Values that cannot
        be found or read are left out."""
        for declared in manifest.secrets.values():
            for secret in self.versions(declared):
                with suppress(DemiurgeError):
                    found = self.find(secret)
                    if found is not None:
                        yield found

    def check_bindings(self, secret: DeclaredSecret) -> Iterator[FoundBinding]:
        """Yields the state of every binding of a secret. Raises nothing."""
        for binding in secret.bindings:
            try:
                found = self._read_binding(binding, secret.version)
            except DemiurgeError as error:
                yield FoundBinding(binding, "refused", error.message)
            else:
                yield FoundBinding(binding, "absent" if found is None else "found")

    def digest(self, alias: str, value: Secret) -> str | None:
        """Returns a digest that tells two values of an alias apart, 16 hexadecimal digits; None without a key. Raises
        Unavailable."""
        if self._digest_key is None:
            return None
        text = f"{alias}\0{value.reveal()}".encode()
        return hmac.digest(self._digest_key(), text, "sha256").hex()[:DIGEST_DIGITS]

    def receipt_entry(self, call: EffectCall, alias: str, version: int, value: Secret) -> Mapping[str, Any]:
        """Returns a receipt's entry for a value: `{alias, version, digest?}`. Raises Unavailable: the effect has no
        outcome yet."""
        digest = self.digest_for(call, alias, value)
        entry = {"alias": alias, "version": version}
        return entry if digest is None else {**entry, "digest": digest}

    def digest_for(self, call: EffectCall, alias: str, value: Secret) -> str | None:
        """Returns the same as `digest`, for an effect. Raises Unavailable: the effect has no outcome yet."""
        try:
            return self.digest(alias, value)
        except Unavailable as error:
            call.stalled = error  # the world's own folder failed: as when a blob can't be stored
            raise

    def versions(self, secret: DeclaredSecret) -> list[DeclaredSecret]:
        """Returns the secret itself; for `alias@*`, one secret for each version in the vault, or the secret itself if
        the vault has none."""
        if secret.version is not None or self.vault is None:
            return [secret]
        try:
            stored = self.vault.names()
        except DemiurgeError:
            return [secret]  # `check_bindings` reports the reason
        found = {number for name, number in stored if f"vault:{name}" in secret.bindings}
        return [replace(secret, version=number) for number in sorted(found)] or [secret]

    def _read_binding(self, binding: str, version: int | None) -> Secret | None:
        scheme, _, where = binding.partition(":")
        match scheme:
            case "env":
                return self._variable(where)
            case "file":
                return read_secret(self._path(where))
            case "vault" if where.startswith((CONNECTION_ALIASES, WEBHOOK_ALIASES)):
                raise _missing(f"{where} belongs to a connection or a webhook and is not a secret.")
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
    """Returns how to set a secret's value, as the part of a sentence that follows a colon."""
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


def _declared(call: EffectCall, value: Mapping[str, Any] | None, may: BindingFilter) -> DeclaredSecret:
    """Returns the secret that a parameter names, with those of its bindings that `may` accepts. Raises Unavailable."""
    if value is None or value["$tag"] != "secret":
        raise _missing("A key must be named as a secret: a literal key would be journaled.")
    name = value["$value"]["alias"], value["$value"]["version"]
    declared = call.services.manifest.secret(*name)
    if declared is None or call.manifest.secret(*name) is None:
        raise _missing(f"The manifest declares no secret {name[0]}@{name[1]}. Add a defsecret.")
    problem = _not_allowed(call, call.services.manifest, declared)
    if problem:
        raise Unavailable(problem, code="secret_not_allowed")
    return replace(declared, bindings=tuple(binding for binding in declared.bindings if may(binding)))


def _not_allowed(call: EffectCall, manifest: Manifest, secret: DeclaredSecret) -> str:
    """Returns why this performance may not have the secret under the manifest in force; empty if it may.

    A grant counts only while its cap type is this effect's: an older manifest could have used its name for another
    grant.
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
