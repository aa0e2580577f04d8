"""`demiurge secrets`: the secrets of a world, and the user's secret vault.

A value is read from stdin or asked for without echo; it is never an argument, because arguments are visible in the
shell's history and in the list of processes. No command prints a value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from demiurge.apps.demiurge import app
from demiurge.bootstrap.secrets import VaultPlaces, open_secrets, open_vault, read_secrets, vault_places
from demiurge.bootstrap.trust.adoption import not_adopted
from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.hints import runnable
from demiurge.cli.secret_input import asked_secret
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.errors import DemiurgeError, NotFound, Unavailable
from demiurge.mcp.settings import ServerSettings
from demiurge.models.scrub import SHORT_SECRET
from demiurge.stores.secret_vault import ALIAS_RULE, SecretVault, is_alias
from demiurge.tools.execution.secret_mask import is_short
from demiurge.values.clock import SystemEntropy
from demiurge.world.connection_credentials import CONNECTION_ALIASES
from demiurge.world.manifest import DeclaredSecret
from demiurge.world.secrets import Secrets, how_to_set
from demiurge.world.webhook_keys import WEBHOOK_ALIASES

__all__ = ["command", "declared_secrets", "own_vault"]


def alias_argument(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A click callback. Raises click.BadParameter."""
    if not is_alias(value):
        raise click.BadParameter(f"it is {ALIAS_RULE}, such as llm/api")
    return value


@click.group(cls=Group, name="secrets")
def command() -> None:
    pass


@command.command(name="set", cls=Command)
@click.argument("alias", callback=alias_argument)
@click.option("--version", type=click.IntRange(1), default=1, show_default=True, help="The version of the secret.")
def set_(alias: str, version: int) -> None:
    """Store the value of the secret ALIAS in your secret vault, in place of the one before.

    The value is asked for, or read from stdin if that is not a terminal; it is never an argument.
    """
    vault, places = own_vault()
    secret = asked_secret(f"Value of {alias}", f"demiurge secrets set {alias} < key.txt")
    vault.put(alias, version, secret, SystemEntropy())
    document = {"alias": alias, "version": version, "vault": str(places.vault), "key": _key_place(places)}
    output.result(document, f"{alias}@{version} is in {places.vault}, sealed with the key in {_key_place(places)}.")
    if is_short(secret.reveal()):
        output.notice(f"{alias}@{version} is {SHORT_SECRET}.")
    if _bound(alias, version) is False:
        output.notice(f"No secret and no MCP server of this world names {alias}@{version}, so nothing uses it.")


@command.command(name="seal", cls=Command)
@click.argument("alias", callback=alias_argument)
def seal(alias: str) -> None:
    """Seal a value for the secret ALIAS and print the address of the sealed value.

    An effect vault.put of this world can store it as the next version of ALIAS in your secret vault. Nobody else can
    open it. The value is asked for, or read from stdin if that is not a terminal; it is never an argument. Makes a
    world if there is none.
    """
    own_vault()
    secret = asked_secret(f"Value of {alias}", f"demiurge secrets set {alias} < key.txt")
    with opened(create=True) as (world, portal):
        ref = portal.run(world.seal(alias, secret))
    digest = open_secrets(os.environ, settings().folder()).digest(alias, secret)
    output.result({"alias": alias, "value_ref": ref, "digest": digest}, ref)


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List secrets: those that the world declares or its MCP servers name and where each is found, and those in your
    secret vault. Prints no values.

    A digest distinguishes two values; it also stands in the receipts of the effects that used the value.
    """
    folder = settings().folder()
    secrets = read_secrets(os.environ, folder)
    rows = [_row(secrets, secret) for declared in declared_secrets() for secret in secrets.versions(declared)]
    bound = {(binding, row["version"]) for row in rows for binding in row["bindings"]}
    vault = open_vault(os.environ)
    stored = vault.names() if vault is not None else []
    for (alias, version), servers in _of_servers().items():
        if (f"vault:{alias}", version) not in bound:
            rows.append(_server_row(secrets, vault, alias, version, servers))
            bound.add((f"vault:{alias}", version))
    rest = [name for name in stored if (f"vault:{name[0]}", name[1]) not in bound]
    rows += [{"alias": alias, "version": version, "bindings": {}, "state": _unbound(alias)} for alias, version in rest]
    header = ("SECRET", "STATE", "DIGEST", "WHERE")
    lines = [(f"{r['alias']}@{r['version'] or '*'}", r["state"], r.get("digest") or "", _where(r)) for r in rows]
    output.result({"secrets": rows}, *output.table(lines, header))


@command.command(name="rm", cls=Command)
@click.argument("alias", callback=alias_argument)
@click.option("--version", type=click.IntRange(1), default=1, show_default=True, help="The version of the secret.")
def rm(alias: str, version: int) -> None:
    """Remove the secret ALIAS from your secret vault."""
    vault, places = own_vault()
    if not vault.discard(alias, version):
        raise NotFound(f"{alias}@{version} is not in {places.vault}; `demiurge secrets ls` shows what is.")
    output.result({"alias": alias, "version": version, "ok": True}, f"{alias}@{version} is out of {places.vault}.")


def declared_secrets() -> list[DeclaredSecret]:
    """Returns the secrets of the world that the global options name, or those that a new one would have. Raises as
    `World.open`, and Conflict (`not_adopted`): a world from elsewhere must not cause look-ups by its names."""
    definitions: list[Mapping[str, Any]] = app().definitions
    try:
        with opened() as (world, portal):
            if not portal.run(world.info())["adopted"]:
                raise not_adopted()
            definitions = world.manifest()["definitions"]
    except NotFound:
        pass
    return [DeclaredSecret.from_definition(d) for d in definitions if d["$kind"] == "defsecret"]


def _row(secrets: Secrets, secret: DeclaredSecret) -> dict[str, Any]:
    places = list(secrets.check_bindings(secret))
    first = next((place for place in places if place.state != "absent"), None)
    row: dict[str, Any] = {
        "alias": secret.alias,
        "version": secret.version,
        "bindings": {place.binding: place.state for place in places},
        "state": "missing" if first is None else first.state,
    }
    if first is None:
        return row | {"mend": how_to_set(secret)}
    if first.state == "refused":
        return row | {"mend": first.why}
    found = secrets.find(secret)
    return row | {"digest": None if found is None else secrets.digest(secret.alias, found)}


def _of_servers() -> dict[tuple[str, int], list[str]]:
    """Returns the aliases and versions that the MCP servers of the world name, with the names of these servers; none if
    the world can't be asked."""
    try:
        with opened() as (world, portal):
            servers = portal.run(world.mcp.list())
    except DemiurgeError:
        return {}
    found: dict[tuple[str, int], list[str]] = {}
    for server in servers:
        for name in ServerSettings.of_json(server.settings).secrets:
            found.setdefault((name.alias, name.version), []).append(server.name)
    return found


def _server_row(
    secrets: Secrets, vault: SecretVault | None, alias: str, version: int, servers: Sequence[str]
) -> dict[str, Any]:
    """Returns the row of a secret that MCP servers name: it is in the vault, or missing."""
    value = vault.get(alias, version) if vault is not None else None
    row = {"alias": alias, "version": version, "servers": list(servers)}
    binding = {f"vault:{alias}": "absent" if value is None else "found"}
    if value is None:
        number = f" --version {version}" if version != 1 else ""
        mend = f"`demiurge secrets set {alias}{number}` stores it for the MCP server {', '.join(servers)}"
        return {**row, "bindings": binding, "state": "missing", "mend": mend}
    return {**row, "bindings": binding, "state": "found", "digest": secrets.digest(alias, value)}


def _unbound(alias: str) -> str:
    """Returns the state of a secret in the vault that no declared secret of this world names."""
    if alias.startswith(WEBHOOK_ALIASES):
        return "webhook"
    return "connection" if alias.startswith(CONNECTION_ALIASES) else "unused"


def _where(row: Mapping[str, Any]) -> str:
    if row["state"] in ("connection", "webhook"):
        return f"see `demiurge {row['state']}s ls` of its world"
    if row["state"] in ("missing", "refused"):
        return runnable(str(row["mend"]))
    used = f", for the MCP server {', '.join(row['servers'])}" if "servers" in row else ""
    places = (binding for binding, state in row["bindings"].items() if state == "found")
    found = next(places, "only in the secret vault")
    return f"{found}{used}"


def own_vault() -> tuple[SecretVault, VaultPlaces]:
    """Returns the user's secret vault and its places. Raises Unavailable, click.UsageError for a world by address."""
    settings().folder()  # refuses the address of a server: the vault there is its user's
    vault, places = open_vault(os.environ), vault_places(os.environ)
    if vault is None or places is None:
        raise Unavailable("There is no home folder to keep a secret vault in: set HOME, or DEMIURGE_VAULT and its key.")
    return vault, places


def _key_place(places: VaultPlaces) -> str:
    return "DEMIURGE_VAULT_KEY" if places.key is None else str(places.key)


def _bound(alias: str, version: int) -> bool | None:
    """Returns whether a declared secret is bound to this alias and version; None if the world cannot be asked."""
    try:
        declared = declared_secrets()
    except DemiurgeError:
        return None
    is_declared = any(one.version in (version, None) and f"vault:{alias}" in one.bindings for one in declared)
    return is_declared or (alias, version) in _of_servers()
