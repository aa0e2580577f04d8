"""Errors of a login. No message quotes what a server sent: an answer may hold a code or a token."""

from __future__ import annotations

from typing import Final

from demiurge.errors import DemiurgeError

__all__ = ["LoginFailed", "RenewalRefused", "known_error"]

_KNOWN: Final = frozenset(
    [
        "access_denied",
        "invalid_client",
        "invalid_client_metadata",
        "invalid_grant",
        "invalid_redirect_uri",
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "server_error",
        "temporarily_unavailable",
        "unapproved_software_statement",
        "unauthorized_client",
        "unsupported_grant_type",
        "unsupported_response_type",
        "unsupported_token_type",
        "insufficient_scope",
        "interaction_required",
        "login_required",
        "consent_required",
    ]
)
"""The error codes of OAuth's standards. Another text of a server is not repeated."""


class LoginFailed(DemiurgeError):
    """A login did not succeed: nothing was stored. `code` says at which step: `not_protected`, `metadata_invalid`,
    `pkce_missing`, `client_id_missing`, `registration_failed`, `redirect_invalid`, `login_refused`, `login_timeout`,
    `token_invalid`, `token_refused`, `oauth_unavailable`."""

    code = "login_failed"


class RenewalRefused(LoginFailed):
    """The authorization server will not renew these tokens, however often it is asked: a person must log in again."""

    code = "login_needed"


def known_error(text: object) -> str:
    """Returns an error code of a server if OAuth's standards define it, else "an unknown error"."""
    return text if isinstance(text, str) and text in _KNOWN else "an unknown error"
