"""Errors as answers: the status of each kind and code, and a body without markup and without secret values."""

from __future__ import annotations

import json
import logging

import pytest
from fastapi import FastAPI, Request
from tests.server.conftest import Served

from demiurge.errors import (
    Conflict,
    Damaged,
    DemiurgeError,
    Divergence,
    InvalidValue,
    NotFound,
    Unavailable,
    UsageError,
)
from demiurge.server.errors import _of_client_gone, _unexpected, error_body, error_response, responses, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidValue("x"), 422),
        (NotFound("x"), 404),
        (Conflict("x"), 409),
        (Unavailable("x"), 503),
        (Damaged("x"), 500),
        (Divergence("x"), 500),
        (UsageError("x"), 400),
        (DemiurgeError("x"), 500),
        (UsageError("x", code="role_missing"), 403),
        (UsageError("x", code="core_tool_locked"), 403),
        (UsageError("x", code="path_not_allowed"), 403),
        (UsageError("x", code="not_here"), 403),
        (UsageError("x", code="not_found"), 404),
        (UsageError("x", code="exists"), 409),
        (UsageError("x", code="not_empty"), 409),
        (UsageError("x", code="not_allowed"), 409),
        (UsageError("x", code="no_action"), 409),
        (UsageError("x", code="layer_damaged"), 409),
        (UsageError("x", code="too_large"), 413),
        (UsageError("x", code="bad_path"), 422),
    ],
)
def test_an_error_has_the_status_of_its_code_or_of_its_kind(error: DemiurgeError, status: int) -> None:
    assert status_of(error) == status


def test_a_body_has_details_only_if_there_are_some_and_no_half_characters() -> None:
    assert error_body("a", "b\ud800") == {"code": "a", "message": "b?"}
    assert error_body("a", "b", {}) == {"code": "a", "message": "b"}
    details = {"by": "ada\udc00", "at": 7, "list": ["x"]}
    body = {"code": "a", "message": "b", "details": {"by": "ada?", "at": 7, "list": ["x"]}}
    assert error_body("a", "b", details) == body
    answer = error_response(409, "a", "b", details)
    assert (answer.status_code, json.loads(bytes(answer.body))) == (409, body)


def test_the_description_of_the_api_has_the_statuses_in_order() -> None:
    found = responses(503, 401)
    assert list(found) == [401, 503]
    assert found[401]["description"] == "No valid token or cookie came with the request."


async def test_an_unexpected_error_says_in_the_log_alone_what_it_was(caplog: pytest.LogCaptureFixture) -> None:
    request, error = Request({"type": "http"}), ValueError("canary")
    answer = await _unexpected(request, error)
    told = {"code": "internal", "message": "The server failed unexpectedly; its log says more."}
    assert (answer.status_code, json.loads(bytes(answer.body))) == (500, told)
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "A request failed unexpectedly (ValueError).")
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    gone = await _of_client_gone(request, error)
    assert (gone.status_code, bytes(gone.body)) == (400, b"")


@pytest.mark.parametrize(
    ("kind", "is_json"),
    [
        ("application/json", True),
        ("Application/JSON ; charset=utf-8", True),
        ("application/merge-patch+json", True),
        ("text/merge+json", False),
        ("application/jsonx", False),
        ("text/plain", False),
    ],
)
async def test_a_body_that_is_not_declared_as_json_is_refused_with_what_to_send(
    served: Served, kind: str, is_json: bool
) -> None:
    user = await served.client()
    answer = await user.post("/api/chats", content=b"[]", headers={"content-type": kind})
    assert answer.status_code == 422
    asks = "The request body is not declared as JSON: send it with Content-Type: application/json."
    assert (answer.json()["message"] == asks) is not is_json
    assert answer.json()["code"] == "validation"


async def test_a_path_that_does_not_take_a_method_names_those_that_it_takes(served: Served) -> None:
    assert isinstance(served.app, FastAPI)
    user = await served.client()
    answer = await user.put("/api/chats")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    told = {"code": "no_method", "message": "This path does not take PUT; it takes GET, POST."}
    assert answer.json() == told
