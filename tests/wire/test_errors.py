from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import DemiurgeError
from demiurge.wire import PROVIDER_ERROR_CODES, ProviderError, provider_error

_RETRYABLE = {"provider_unavailable", "rate_limit", "timeout", "truncated"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (
            {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}},
            None,
            "authentication",
        ),
        ({"error": {"message": "no", "code": "invalid_api_key"}}, 401, "authentication"),
        ({"error": {"message": "not allowed", "type": "permission_error"}}, 403, "authentication"),
        ({"error": {"message": "x", "code": "model_not_found"}}, 400, "not_found"),
        ({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, None, "not_found"),
        (
            {"error": {"message": "x", "type": "exceed_context_size_error", "code": 400}},
            400,
            "context_overflow",
        ),
        (
            {"error": {"message": "This model's maximum context length is 8192 tokens."}},
            400,
            "context_overflow",
        ),
        ({"error": {"message": "exceeds the context window of this model"}}, None, "context_overflow"),
        ({"error": {"message": "x", "code": "rate_limit_exceeded"}}, 413, "rate_limit"),
        (
            {"error": {"message": "x", "code": "insufficient_quota", "type": "insufficient_quota"}},
            429,
            "insufficient_quota",
        ),
        ({"error": {"message": "Payment required"}}, 402, "insufficient_quota"),
        ({"error": {"message": "x", "code": 429}}, 200, "rate_limit"),
        ({"error": {"message": "filtered", "code": "content_filter", "status": 400}}, 200, "content_filter"),
        (
            {"error": {"message": "bad", "type": "invalid_request_error", "code": None}},
            400,
            "invalid_request",
        ),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, None, "invalid_request"),
        ({"error": {"message": "x", "code": "tool_use_failed", "status_code": 400}}, None, "invalid_request"),
        ({"error": {"message": "x", "type": "server_error"}}, None, "provider_unavailable"),
        ({"object": "error", "message": "overloaded", "code": "503"}, None, "provider_unavailable"),
        ({"error": "model is loading"}, None, "provider_unavailable"),
        ({"error": {"message": "who are you", "type": "api_error"}}, 401, "authentication"),
        ({"error": {"message": "slow down", "type": "server_error"}}, 429, "rate_limit"),
        ({"error": {"message": "no room", "type": "internal_server_error"}}, 498, "provider_unavailable"),
        ({"error": {"message": "no tools here", "type": "not_supported_error"}}, 501, "invalid_request"),
        ({"error": {"message": "x", "code": "image_too_large"}}, None, "invalid_request"),
        ({"error": {"message": "x", "code": "unsupported_format"}}, None, "invalid_request"),
        ({"type": "error", "error": {"type": "request_too_large", "message": "x"}}, None, "invalid_request"),
        ({"error": {"message": "x", "type": "invalid_model", "code": "1"}}, 400, "not_found"),
        ({"error": {"message": "a/b is not a valid model ID", "code": 400}}, 400, "not_found"),
        ({"code": "some argument", "error": "Incorrect API key provided"}, 400, "authentication"),
        ([{"error": {"message": "API key not valid.", "status": "INVALID_ARGUMENT"}}], 400, "authentication"),
        ([{"error": {"message": "x", "status": "RESOURCE_EXHAUSTED", "code": 429}}], None, "rate_limit"),
        (b'[{"error": {"message": "x", "status": "DEADLINE_EXCEEDED"}}]', None, "timeout"),
        ({"statusCode": 429, "message": "wait"}, None, "rate_limit"),
        ({"error": {"type": "invalid_request_error", "message": "credit balance is low"}}, 400, "insufficient_quota"),
        ({"error": {"type": "budget_exceeded", "message": "spent", "code": "400"}}, 400, "insufficient_quota"),
        ({"code": "no permission", "error": "The team does not have any credits"}, 403, "insufficient_quota"),
        ({"error": {"code": 403, "message": "Your input was flagged"}}, 403, "content_filter"),
        ({"error": {"code": "invalid_prompt", "message": "x"}}, 400, "content_filter"),
        ({"error": {"message": "ContentPolicyViolationError: x"}}, 400, "content_filter"),
        ({"error": {"message": "ContextWindowExceededError: x"}}, 400, "context_overflow"),
        ({"error": {"message": "input and output exceed context limit: 9 > 8"}}, 400, "context_overflow"),
        ({"error": {"message": "more than the maximum number of tokens allowed (8)"}}, 400, "context_overflow"),
        ({"error": "`inputs` tokens + `max_new_tokens` must be <= 8"}, 422, "context_overflow"),
        ({"error": {"code": "tokens_limit_reached", "message": "x"}}, 413, "context_overflow"),
        ({"message": "Too many tokens, please wait"}, None, "provider_unavailable"),
        ({"detail": "Not Found"}, 404, "not_found"),
        (b"<html>Bad Gateway</html>", 502, "provider_unavailable"),
        (b"", 504, "timeout"),
        (b"", 408, "timeout"),
        (b'{"error": {"message": "x", "code": "rate_limit_exceeded"}}', None, "rate_limit"),
        (b"\xff\xfe", None, "bad_response"),
        (None, None, "bad_response"),
        ({"hello": 1}, 200, "bad_response"),
    ],
)
def test_the_code_of_an_error_body(body: object, status: int | None, code: str) -> None:
    error = provider_error(body, status)
    assert error.code == code
    assert error.retryable == (code in _RETRYABLE)


def test_the_message_says_what_the_provider_said_but_no_key() -> None:
    error = provider_error({"error": {"message": "Unknown\nfield\0 'x'; key sk-abc123def456"}}, 400)
    assert error.message == "The model provider rejected the request. (Unknown field 'x'; key [key])"
    assert error.detail == "Unknown field 'x'; key [key]"
    wrong_key = provider_error({"error": {"message": "Incorrect API key provided: abc"}}, 401)
    assert "abc" not in wrong_key.message
    assert len(provider_error(b"x" * 10_000_000, 500).message) < 700


@pytest.mark.parametrize(
    "raw", ['{"error": {"message": "too long", "code": "context_length_exceeded"}}', "context size"]
)
def test_an_error_that_a_proxy_passes_on_gives_the_code(raw: str) -> None:
    error = provider_error({"error": {"message": "It failed", "code": 400, "metadata": {"raw": raw}}}, 400)
    assert error.code == "context_overflow"
    assert error.detail in ("It failed: too long", "It failed: context size")


def test_a_provider_error_can_be_made_by_hand() -> None:
    error = ProviderError("Nothing came.", code="provider_unavailable", status=503)
    assert isinstance(error, DemiurgeError)
    assert (str(error), error.code, error.status, error.retryable) == (
        "Nothing came.",
        "provider_unavailable",
        503,
        True,
    )
    assert not ProviderError(code="rate_limit", retryable=False).retryable


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "status", "detail"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(_json | st.binary(max_size=40), st.none() | st.integers(100, 599))
def test_every_body_has_a_code(body: object, status: int | None) -> None:
    error = provider_error(body, status)
    assert error.code in PROVIDER_ERROR_CODES
    assert error.message.isprintable()


def test_an_error_nested_without_end_is_still_an_error() -> None:
    body = '{"error": {"message": ' + "[" * 900 + "]" * 900 + "}}"
    assert provider_error(body, 500).code == "provider_unavailable"
