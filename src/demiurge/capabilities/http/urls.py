"""Web addresses, parsed in one way only: the URL that a grant was compared with is the URL that is connected to.

A second reading of the same text is how a request slips past a check, so a text that could be read in two ways is
refused: user names, backslashes, numbers that only some resolvers take for an address. Hosts are compared and sent in
their ASCII form, in lower case and without a final dot.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin

from demiurge.errors import InvalidValue

__all__ = ["WebUrl", "has_dot_segments", "host_form", "is_inside", "joined", "parse_url"]

MAX_URL = 8192
MAX_HOST = 254
PORTS = {"http": 80, "https": 443}

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(#.*)?", re.IGNORECASE
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@%]+)(:(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNREADABLE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff]")
_SINCE_2008 = re.compile("[\u00df\u03c2\u200c\u200d\u1e9e]")
"""Characters that the two standards for internationalised names (IDNA 2003 and 2008) turn into two different names."""
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))


class WebUrl(NamedTuple):
    """A parsed URL. `host` is a name in ASCII or the canonical text of an address (IPv6 without brackets); `target` is
    path and query as they are sent."""

    scheme: str
    host: str
    port: int
    path: str
    target: str

    @property
    def authority(self) -> str:
        """The value of the Host header: without the port if it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> WebUrl:
    """Parses an absolute http or https URL. Raises InvalidValue (`invalid_url`) for any other text and for one that
    could be read in two ways."""
    found = _URL.fullmatch(text) if len(text) <= MAX_URL and not _UNREADABLE.search(text) else None
    authority = _AUTHORITY.fullmatch(found["authority"]) if found else None
    if found is None or authority is None:
        raise _invalid("is not a plain http or https address")
    scheme = found["scheme"].lower()
    port = int(authority["port"]) if authority["port"] else PORTS[scheme]
    if not 0 < port < 65536:
        raise _invalid("has a port that does not exist")
    path = quote(found["path"] or "/", safe=_PRINTABLE)
    target = path + quote(found["query"] or "", safe=_PRINTABLE)
    if len(target) > MAX_URL:
        raise _invalid("is too long")
    return WebUrl(scheme, host_form(authority["host"]), port, path, target)


def host_form(host: str) -> str:
    """Returns the canonical form of a host's name or address. Raises InvalidValue (`invalid_url`)."""
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host.strip("[]")))
        except ValueError:
            raise _invalid("has a malformed address") from None
    if len(host) > MAX_HOST:
        raise _invalid("has a malformed host")
    if _SINCE_2008.search(host):
        raise _invalid("has a host that must be written in its xn-- form")
    try:
        name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise _invalid("has a malformed host") from None
    labels = name.split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise _invalid("has a malformed host")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise _invalid("has an address that is not four decimal numbers") from None
    return name


def joined(base: WebUrl, location: str) -> WebUrl:
    """Returns the target of a redirect. Raises InvalidValue (`invalid_url`)."""
    if _UNREADABLE.search(location):
        raise _invalid("can't be read")
    try:
        return parse_url(urljoin(str(base), location))
    except ValueError:
        raise _invalid("can't be read") from None


def has_dot_segments(path: str) -> bool:
    """Returns whether a server could take a part of `path`, however often it is decoded, for `.` or `..`."""
    for _ in range(4):
        segments = path.replace("\\", "/").split("/")
        if any(segment.partition(";")[0] in (".", "..") for segment in segments):
            return True
        decoded = unquote(path)
        if decoded == path:
            return False
        path = decoded
    return True


def is_inside(path: str, prefix: str) -> bool:
    """Returns whether `path` is `prefix` or lies below it. Whole segments count, so `/a` does not hold `/ab`."""
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")


def _invalid(problem: str) -> InvalidValue:
    return InvalidValue(problem, path="url", code="invalid_url")
