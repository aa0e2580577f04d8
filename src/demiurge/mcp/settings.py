"""The settings of one MCP server: how to reach it and its limits. They are data, so a world records them.

Settings hold no secret. A value of `env` and `headers` is a `SecretName`, or text in which `${...}` stands for a value
that is looked up when the server is started: `${NAME}` and `${NAME:-default}` for a variable of the environment,
`${secret:ALIAS}` and `${secret:ALIAS@VERSION}` for a secret. The command, the folder and the URL may refer to
variables, and not to secrets, because other users of the machine can see them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from demiurge.errors import InvalidValue
from demiurge.mcp.names import checked_server_name
from demiurge.tools.capabilities import SecretName
from demiurge.values import canonical_json

__all__ = [
    "Limits",
    "SamplingGrant",
    "ServerLimits",
    "ServerSettings",
    "SettingValue",
    "Transport",
    "looks_like_credential",
    "parse_reference",
    "read_mcp_json",
    "references",
    "refuse_credentials",
]

Transport: TypeAlias = Literal["stdio", "http"]
SettingValue: TypeAlias = str | SecretName

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_SECRET = re.compile(r"secret:([^@\s]+?)(?:@([1-9][0-9]{0,8}))?")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~A-Za-z0-9-]+")

_CREDENTIAL_NAME = re.compile(
    r"(?i)(?:^|[^a-z])(?:api|access|private|secret|auth)?[-_]?"
    r"(?:key|keys|token|tokens|secret|secrets|password|passwd|pwd|credentials?|authorization|cookie|pat|dsn)$"
)
_CREDENTIAL_VALUE = re.compile(
    r"(?:(?i:bearer|basic)\s+[^\s$]{8,}"
    r"|\b(?:sk|pk|rk|ghp|gho|ghu|ghs|glpat|xox[abpr]|AKIA|ASIA|AIza|npm|hf|ya29)[-_A-Za-z0-9.]{12,}"
    r"|\bgithub_pat_\w{12,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|[a-z][a-z0-9+.-]*://[^\s/@:]*:[^\s/@$]+@)"
)
_NAMED_VALUE = re.compile(r"([A-Za-z][\w.-]*)(?:=|:\s+)([^\s&;]+)")
_LONG_TOKEN = re.compile(r"(?=[^\s]*[a-z])(?=[^\s]*[A-Z])(?=[^\s]*[0-9])[A-Za-z0-9_+=-]{24,}")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one server. `timeout_s`: seconds for one call, above 0. `max_parallel`: calls at a time. `per_minute`:
    calls in any minute, None for no limit. `max_result_bytes`: the most bytes that a result may have.
    `refresh_s`: the age in seconds at which a listing is fetched again before a call; 0: before every call. Raises
    InvalidValue."""

    timeout_s: float = 60
    max_parallel: int = 4
    per_minute: int | None = None
    max_result_bytes: int = 1_048_576
    refresh_s: float = 60

    def __post_init__(self) -> None:
        for name, low, high in (("timeout_s", 0.001, 86_400), ("refresh_s", 0, 86_400)):
            _check_number(name, getattr(self, name), low, high, (int, float))
        for name, high in (("max_parallel", 1_000), ("per_minute", 1_000_000), ("max_result_bytes", 1 << 30)):
            if not (name == "per_minute" and self.per_minute is None):
                _check_number(name, getattr(self, name), 1, high, (int,))

    def to_json(self) -> dict[str, Any]:
        """Returns the limits that differ from the defaults."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name)) != item.default}

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> ServerLimits:
        """Inverse of `to_json`. Raises InvalidValue."""
        _check_fields(cls, data, "limits")
        return cls(**data)


Limits: TypeAlias = ServerLimits


@dataclass(frozen=True, slots=True)
class SamplingGrant:
    """A person's word that a server may ask a model while it works on a call. `tokens`, of the requests and the answers
    together, and `requests` are the most for one call. Raises InvalidValue."""

    tokens: int
    requests: int = 8

    def __post_init__(self) -> None:
        _check_number("tokens", self.tokens, 1, 10_000_000, (int,))
        _check_number("requests", self.requests, 1, 1_000, (int,))

    def to_json(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "requests": self.requests}

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> SamplingGrant:
        """Inverse of `to_json`. Raises InvalidValue."""
        _check_fields(cls, data, "sampling")
        if "tokens" not in data:
            raise InvalidValue("a grant names how many tokens a call may use", path="tokens")
        return cls(**data)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """An MCP server. With the transport `stdio`, `command` is the program and its arguments, `env` are variables for
    it beside a short list of ours, `cwd` is its folder. With `http`, `url` is its endpoint and `headers` go with each
    request. `connection_id`: the connection whose authorization the requests carry. `sampling`: the server may ask
    a model while it works on a call; None: it may not. `roots`: it may ask for the folders of the program that asked
    for the call. Raises InvalidValue."""

    name: str
    transport: Transport = "stdio"
    command: tuple[str, ...] = ()
    env: Mapping[str, SettingValue] = field(default_factory=dict, hash=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, SettingValue] = field(default_factory=dict, hash=False)
    connection_id: str | None = None
    limits: Limits = field(default_factory=Limits)
    sampling: SamplingGrant | None = None
    roots: bool = False

    def __post_init__(self) -> None:
        checked_server_name(self.name)
        if self.transport not in ("stdio", "http"):
            raise InvalidValue("must be 'stdio' or 'http'", path="transport")
        if not isinstance(self.command, list | tuple) or not all(map(_is_line, self.command)):
            raise InvalidValue("must be a list of texts: the program and its arguments", path="command")
        object.__setattr__(self, "command", tuple(self.command))
        for name, pattern in (("env", _VARIABLE_NAME), ("headers", _HEADER_NAME)):
            object.__setattr__(self, name, _checked_values(name, getattr(self, name), pattern))
        for name in ("cwd", "url", "connection_id"):
            if getattr(self, name) is not None and not (_is_line(getattr(self, name)) and getattr(self, name)):
                raise InvalidValue("must be text of one line", path=name)
        for text in (*self.command, self.url or "", self.cwd or ""):
            if any(isinstance(named, SecretName) for named in references(text)):
                raise InvalidValue("A secret stands in 'env' or 'headers' only: others can see a command and a URL.")
        if not isinstance(self.limits, Limits):
            raise InvalidValue("must be Limits", path="limits")
        if self.sampling is not None and not isinstance(self.sampling, SamplingGrant):
            raise InvalidValue("must be a SamplingGrant or None", path="sampling")
        if type(self.roots) is not bool:
            raise InvalidValue("must be true or false", path="roots")
        self._check_target()

    def _check_target(self) -> None:
        if self.transport == "stdio":
            unused = [name for name in ("url", "headers", "connection_id") if getattr(self, name)]
            if not self.command or not self.command[0]:
                raise InvalidValue("a server with the transport stdio needs a program", path="command")
        else:
            unused = [name for name in ("command", "env", "cwd") if getattr(self, name)]
            _check_url(self.url)
        if unused:
            raise InvalidValue(f"does not go with the transport {self.transport}", path=unused[0])

    @property
    def target(self) -> str:
        """The command or the URL, for people. References are shown as they are written, values never."""
        return " ".join(self.command) if self.transport == "stdio" else str(self.url)

    @property
    def secrets(self) -> tuple[SecretName, ...]:
        """The secrets that the settings name, each once."""
        named: list[SecretName] = []
        for value in (*self.env.values(), *self.headers.values()):
            if isinstance(value, SecretName):
                named.append(value)
            else:
                named += [found for found in references(value) if isinstance(found, SecretName)]
        return tuple(dict.fromkeys(named))

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as JSON, without fields that have their defaults. A SecretName is
        `{"secret": "alias@version"}`."""
        node: dict[str, Any] = {"name": self.name, "transport": self.transport}
        for name in ("command", "env", "cwd", "url", "headers", "connection_id"):
            if value := getattr(self, name):
                node[name] = (
                    list(value) if name == "command" else _values_json(value) if name in ("env", "headers") else value
                )
        if limits := self.limits.to_json():
            node["limits"] = limits
        if self.sampling is not None:
            node["sampling"] = self.sampling.to_json()
        return {**node, "roots": True} if self.roots else node

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> ServerSettings:
        """Inverse of `to_json`. Raises InvalidValue."""
        _check_fields(cls, data, "a server")
        given = {name: value for name, value in data.items() if value is not None}
        for name in ("env", "headers"):
            if name in given:
                given[name] = _values_of_json(name, given[name])
        if "limits" in given:
            given["limits"] = Limits.of_json(given["limits"])
        if "sampling" in given:
            given["sampling"] = SamplingGrant.of_json(given["sampling"])
        if "name" not in given:
            raise InvalidValue("a server needs a name", path="name")
        return cls(**given)


def references(text: str) -> list[str | SecretName]:
    """Returns what the `${...}` of a text name: variables of the environment, and secrets. Raises InvalidValue."""
    return [parse_reference(found[1])[0] for found in _REFERENCE.finditer(text)]


def parse_reference(inside: str) -> tuple[str | SecretName, str | None]:
    """Returns what the inside of `${...}` names, the name of a variable or a SecretName, and the default of a variable.
    Raises InvalidValue."""
    if found := _SECRET.fullmatch(inside):
        return SecretName(found[1], int(found[2] or 1)), None
    if found := _VARIABLE.fullmatch(inside):
        return found[1], found[2]
    raise InvalidValue("A reference is ${VARIABLE}, ${VARIABLE:-default}, ${secret:ALIAS} or ${secret:ALIAS@VERSION}.")


def looks_like_credential(name: str, value: str) -> bool:
    """Returns whether a literal value is likely a password, key or token, by its name or its form. Text that holds
    nothing but references is none."""
    literal = _REFERENCE.sub("", value).strip()
    if not literal:
        return False
    named = _CREDENTIAL_NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)) is not None
    if named and re.fullmatch(r"(?i)(bearer|basic|token|true|false|yes|no|none|null|[0-9]{1,4})", literal) is None:
        return True
    return _CREDENTIAL_VALUE.search(value) is not None or _LONG_TOKEN.fullmatch(literal) is not None


def read_mcp_json(text: str | bytes) -> list[ServerSettings]:
    """Returns the servers of a `.mcp.json` file, the format that editors and coding agents share: an object
    `mcpServers` (or `servers`) of servers by name, each with `command`, `args`, `env`, `cwd`, or `url`, `headers`.

    A name that no server can have here is mapped. Raises InvalidValue for another form, for a reference to an editor's
    input, and for a literal that looks like a credential: name a variable or a secret instead."""
    document = canonical_json.parse_object(text)
    found = document.get("mcpServers", document.get("servers"))
    if not isinstance(found, Mapping) or not all(isinstance(entry, Mapping) for entry in found.values()):
        raise InvalidValue("The file needs an object 'mcpServers' with one object for each server.", path="mcpServers")
    servers: dict[str, ServerSettings] = {}
    for name, entry in found.items():
        settings = _read_entry(name, entry)
        if settings.name in servers:
            raise InvalidValue(f"Two servers get the name {settings.name!r}: rename one.", path=f"mcpServers.{name}")
        servers[settings.name] = settings
    return list(servers.values())


_KINDS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http"}


def _read_entry(name: str, entry: Mapping[str, Any]) -> ServerSettings:
    path = f"mcpServers.{name}"
    kind = entry.get("type", entry.get("transport", "http" if "url" in entry else "stdio"))
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidValue("the type must be 'stdio' or 'http'; the old SSE transport is not offered", path=path)
    given: dict[str, Any] = {"name": _server_name(name), "transport": _KINDS[kind]}
    if given["transport"] == "stdio":
        arguments = entry.get("args", [])
        if not isinstance(arguments, list) or not isinstance(entry.get("command"), str):
            raise InvalidValue("needs 'command', a text, and 'args', a list", path=path)
        given |= {"command": (entry["command"], *arguments), "env": entry.get("env") or {}, "cwd": entry.get("cwd")}
    else:
        given |= {"url": entry.get("url"), "headers": entry.get("headers") or {}}
    try:
        settings = ServerSettings.of_json(given)
    except InvalidValue as error:
        raise InvalidValue(error.message, path=path) from None
    refuse_credentials(settings, path)
    return settings


def refuse_credentials(settings: ServerSettings, path: str = "") -> None:
    """Raises InvalidValue (`literal_credential`) if a value of `env` or `headers`, an argument or the URL is a literal
    that looks like a credential. The message names the value, and never quotes it."""
    words = settings.command
    hidden = [(name, value) for values in (settings.env, settings.headers) for name, value in values.items()]
    named = [("an argument", word) for word in words] + [("the URL", settings.url or "")]
    named += [(word.lstrip("-"), after) for word, after in itertools.pairwise(words) if word.startswith("-")]
    named += [pair for word in (*words, settings.url or "") for pair in _NAMED_VALUE.findall(word)]
    advice = "Store it with 'demiurge secrets set' and write ${secret:ALIAS}, or write ${VARIABLE}."
    _refuse_literals(hidden, advice, path)
    advice = "Others can see a command and a URL: write ${VARIABLE}, or give it as a secret in 'env' or 'headers'."
    _refuse_literals(named, advice, path)


def _refuse_literals(named: Iterable[tuple[str, SettingValue]], advice: str, path: str) -> None:
    for name, value in named:
        if isinstance(value, str) and looks_like_credential(name, value):
            message = f"The value of {name} looks like a credential. {advice}"
            raise InvalidValue(message, path=path, code="literal_credential")


def _server_name(name: str) -> str:
    """Returns the name of a server in a file, mapped to one that is allowed here."""
    mapped = re.sub(r"_{2,}", "_", re.sub(r"[^a-zA-Z0-9_-]+", "-", name)).strip("-_")
    return mapped[:32].rstrip("-_")


def _check_number(name: str, value: object, low: float, high: float, kinds: tuple[type, ...]) -> None:
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not low <= cast("float", value) <= high:
        raise InvalidValue(f"must be a number from {low} to {high}", path=name)


def _check_fields(kind: type, data: object, what: str) -> None:
    known = {item.name for item in fields(kind)}
    if not isinstance(data, Mapping) or not known.issuperset(data):
        raise InvalidValue(f"The settings of {what} are an object with the fields {', '.join(sorted(known))}.")


def _check_url(url: str | None) -> None:
    try:
        parts = urlsplit(url or "")
        host, credentials = parts.hostname, parts.username is not None
    except ValueError:
        raise InvalidValue("must be a URL", path="url") from None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidValue(
            "a server with the transport http needs a URL that begins with http:// or https://", path="url"
        )
    if credentials:
        raise InvalidValue("A URL can't hold a user or a password. Use a header with a secret.", path="url")


def _is_line(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and "\n" not in value and "\r" not in value


def _checked_values(name: str, values: object, pattern: re.Pattern[str]) -> Mapping[str, SettingValue]:
    if not isinstance(values, Mapping):
        raise InvalidValue("must be a mapping from names to values", path=name)
    for key, value in values.items():
        if not isinstance(key, str) or not pattern.fullmatch(key):
            raise InvalidValue(f"{key!r} is no name here", path=name)
        if not isinstance(value, SecretName) and not (isinstance(value, str) and "\0" not in value):
            raise InvalidValue("must be text or a SecretName", path=f"{name}.{key}")
        if name == "headers" and isinstance(value, str) and not _is_line(value):
            raise InvalidValue("must be text of one line", path=f"{name}.{key}")
        if isinstance(value, str):
            references(value)
    return dict(values)


def _values_json(values: Mapping[str, SettingValue]) -> dict[str, Any]:
    return {
        key: {"secret": f"{value.alias}@{value.version}"} if isinstance(value, SecretName) else value
        for key, value in values.items()
    }


def _values_of_json(path: str, values: object) -> dict[str, SettingValue]:
    if not isinstance(values, Mapping):
        raise InvalidValue("must be a mapping from names to values", path=path)
    return {key: _value_of_json(f"{path}.{key}", value) for key, value in values.items()}


def _value_of_json(path: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        named = value.get("secret")
        found = _SECRET.fullmatch(f"secret:{named}") if isinstance(named, str) and len(value) == 1 else None
        if found is None:
            raise InvalidValue('must be text or {"secret": "alias@version"}', path=path)
        return SecretName(found[1], int(found[2] or 1))
    return value
