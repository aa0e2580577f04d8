"""Failures at a model provider, as one exception with a closed code.

    ProviderError              a DemiurgeError; `status` is the HTTP status if one is known
      authentication           the key is missing, wrong or not allowed to do this
      bad_response             what came back is not this format, or has too many calls
      content_filter           the provider refused to process the prompt
      context_overflow         the prompt does not fit into the model's context
      insufficient_quota       the account has no money or quota left
      invalid_request          the provider rejects the request; sending it again will not help
      not_found                no such model, deployment or path
      provider_unavailable     the provider failed or is overloaded                               retryable
      rate_limit               too many requests or tokens for now                                retryable
      timeout                  the provider gave up waiting                                       retryable
      truncated                the answer ended before it was complete                            retryable

A retry is safe for the codes marked so, because no tool call of a failed answer is ever run.

The classifier reads the provider's own words before the HTTP status: hosts send a context overflow as 400,
413 or 500, a wrong key as 400, an empty account as 400 or 429, and errors inside a stream with no status at all. What
a proxy passes on of the provider behind it (OpenRouter's `metadata.raw`) is read as well. Only the words that say
nothing but "it failed" (`api_error`, `server_error`) count less than a status that blames the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demiurge.errors import DemiurgeError

__all__ = ["PROVIDER_ERROR_CODES", "ProviderError", "provider_error"]

_SENTENCES = {
    "authentication": "The model provider did not accept the API key; check the key and what it may use.",
    "bad_response": "The model provider's answer could not be understood.",
    "content_filter": "The model provider's content filter refused the request.",
    "context_overflow": "The conversation is too long for this model's context.",
    "insufficient_quota": "The account at the model provider has no credit or quota left.",
    "invalid_request": "The model provider rejected the request.",
    "not_found": "The model provider does not know this model or address.",
    "provider_unavailable": "The model provider failed or is overloaded; try again later.",
    "rate_limit": "The model provider's rate limit is reached; try again later.",
    "timeout": "The model provider took too long; try again later.",
    "truncated": "The model provider's answer ended before it was complete.",
}
_RETRYABLE = frozenset({"provider_unavailable", "rate_limit", "timeout", "truncated"})
PROVIDER_ERROR_CODES = frozenset(_SENTENCES)

_BY_WORD = {
    "api_error": "provider_unavailable",
    "arrearage": "insufficient_quota",
    "auth_error": "authentication",
    "authentication_error": "authentication",
    "billing_error": "insufficient_quota",
    "billing_hard_limit_reached": "insufficient_quota",
    "budget_exceeded": "insufficient_quota",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "context_length_exceeded": "context_overflow",
    "data_inspection_failed": "content_filter",
    "deadline_exceeded": "timeout",
    "deploymentnotfound": "not_found",
    "exceed_context_size_error": "context_overflow",
    "exceeded_current_quota_error": "insufficient_quota",
    "image_content_policy_violation": "content_filter",
    "insufficient_quota": "insufficient_quota",
    "internal_error": "provider_unavailable",
    "internal_server_error": "provider_unavailable",
    "invalid_api_key": "authentication",
    "invalid_model": "not_found",
    "invalid_prompt": "content_filter",
    "model_decommissioned": "not_found",
    "model_max_prompt_tokens_exceeded": "context_overflow",
    "model_not_found": "not_found",
    "moderation_blocked": "content_filter",
    "not_found": "not_found",
    "not_found_error": "not_found",
    "not_supported_error": "invalid_request",
    "notfounderror": "not_found",
    "organization_restricted": "authentication",
    "overloaded_error": "provider_unavailable",
    "permission_denied": "authentication",
    "permission_error": "authentication",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "ratelimitreached": "rate_limit",
    "request_too_large": "invalid_request",
    "resource_exhausted": "rate_limit",
    "responsibleaipolicyviolation": "content_filter",
    "server_error": "provider_unavailable",
    "service_unavailable": "provider_unavailable",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "tokens_limit_reached": "context_overflow",
    "too_many_requests": "rate_limit",
    "unauthenticated": "authentication",
    "vector_store_timeout": "timeout",
}
_BY_STATUS = {
    401: "authentication",
    402: "insufficient_quota",
    403: "authentication",
    404: "not_found",
    408: "timeout",
    429: "rate_limit",
    498: "provider_unavailable",
    504: "timeout",
}
_REJECTED = ("badrequest", "image_", "invalid", "unsupported")
_SURE = frozenset({401, 404, 429})
_BY_TEXT = tuple(
    (code, re.compile(text, re.IGNORECASE))
    for code, text in (
        ("insufficient_quota", r"credit balance|(?:have|has) any credits|specified API usage limits"),
        ("content_filter", r"ContentPolicyViolation|(?:input|prompt) was flagged"),
        ("authentication", r"incorrect API key|API key not valid"),
        ("not_found", r"not a valid model ID"),
        (
            "context_overflow",
            r"maximum model length|context[ _]?(?:window|length|size|limit)|(?:prompt|input) is too long|"
            r"too many (?:input )?tokens(?!, please wait)|maximum number of tokens|model token limit|"
            r"range of input length|inputs` (?:tokens \+|must have less)",
        ),
    )
)
_SECRET = re.compile(r"(?:\b(?:sk|gsk|key|xai)-|\bBearer\s+)[\w*.\-]{6,}")
_MAX_DETAIL = 500


class ProviderError(DemiurgeError):
    """`code` is one of PROVIDER_ERROR_CODES; `detail` is the provider's own text, cut to 500 characters,
    without keys and control characters (the message ends with it, except where the key is the topic)."""

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "bad_response",
        status: int | None = None,
        detail: str = "",
        retryable: bool | None = None,
    ) -> None:
        sentence = message or _SENTENCES.get(code, _SENTENCES["bad_response"])
        self.detail = _tidy(detail)
        if self.detail and code != "authentication":
            sentence = f"{sentence} ({self.detail})"
        super().__init__(sentence, code=code)
        self.status = status
        self.retryable = code in _RETRYABLE if retryable is None else retryable


def provider_error(body: object, status: int | None = None) -> ProviderError:
    """Returns the error for an error body (bytes, text or parsed JSON) and an HTTP status. Never fails."""
    parsed = _parsed(body)
    fields = _fields(parsed)
    if status is None or status < 400:
        status = _status(fields) or status
    cause = _cause(fields)
    detail = ": ".join(filter(None, (_detail(fields), _detail(cause))))
    code = _classify([*_words(fields), *_words(cause)], detail, status)
    if code is None:
        code = "provider_unavailable" if detail and isinstance(parsed, Mapping | list) else "bad_response"
    return ProviderError(code=code, status=status, detail=detail)


def _classify(words: Sequence[str], detail: str, status: int | None) -> str | None:
    blamed = status is not None and 400 <= status < 500
    for word in words:
        code = _BY_WORD.get(word)
        if code is not None and not (blamed and code == "provider_unavailable"):
            return code
    if status not in _SURE:
        for code, text in _BY_TEXT:
            if text.search(detail):
                return code
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if blamed:
        return "invalid_request"
    if status is not None and status >= 500:
        return "provider_unavailable"
    return "invalid_request" if any(word.startswith(_REJECTED) for word in words) else None


def _words(fields: Mapping[str, Any]) -> Iterator[str]:
    for key in ("code", "type", "status"):
        if isinstance(fields.get(key), str):
            yield fields[key].lower()


def _fields(body: object) -> Mapping[str, Any]:
    """Returns the mapping that holds message, type and code: hosts nest it in `error`, or do not, put it in a list
    (Gemini), or send bare text."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping):
        inner = body.get("error")
        if isinstance(inner, Mapping):
            return inner
        if isinstance(inner, str) and inner:
            return {**body, "message": body.get("message") or inner}
        return body
    return {"message": body} if isinstance(body, str) and body.strip() else {}


def _cause(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the fields of the error that a proxy received from the provider behind it."""
    metadata = fields.get("metadata")
    return _fields(_parsed(metadata.get("raw"))) if isinstance(metadata, Mapping) else {}


def _detail(fields: Mapping[str, Any]) -> str:
    return next((_shown(fields[key]) for key in ("message", "detail", "error") if fields.get(key)), "")


def _status(fields: Mapping[str, Any]) -> int | None:
    for key in ("status_code", "statusCode", "status", "code"):
        value = fields.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    return None


def _parsed(body: object) -> object:
    if isinstance(body, bytes | bytearray):
        body = bytes(body[:100_000]).decode("utf-8", "replace")
    if isinstance(body, str):
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return body
    return body


def _shown(value: object) -> str:
    try:
        return str(value)
    except RecursionError:
        return ""


def _tidy(text: str) -> str:
    """Returns one line, without control and direction characters and without text that looks like a key."""
    printable = "".join(character if character.isprintable() else " " for character in text[: 4 * _MAX_DETAIL])
    text = _SECRET.sub("[key]", " ".join(printable.split()))
    return text if len(text) <= _MAX_DETAIL else text[: _MAX_DETAIL - 1] + "…"
