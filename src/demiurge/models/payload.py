"""The JSON body of a request, with additions for the local model. Pure.

Invariant: the fields that stay the same from turn to turn (model, tools) come first and are encoded the same way every
time, so that prompt caches hold; every request asks for a streamed answer, since there is one decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from demiurge.errors import InvalidValue
from demiurge.models.local.fallback import guided_format
from demiurge.models.local.order import in_natural_order
from demiurge.models.providers import Provider, is_reasoning
from demiurge.models.request import GenerateRequest
from demiurge.wire.attachments import check_request
from demiurge.wire.result_parts import describe_parts, fit_parts
from demiurge.wire.strict_calls import strict_tools

__all__ = ["build", "is_guided"]


def build(row: Provider, request: GenerateRequest, base_url: str) -> dict[str, Any]:
    """Returns the body. Raises InvalidValue for a request that no provider could accept (empty items, a bad
    temperature), and for attachments of messages that this provider cannot accept (`unsupported_attachment`,
    `attachments_too_large`). Parts of tools' results that it cannot take are described."""
    _check(request)
    items = fit_parts(describe_parts(request.items, row.takes))
    check_request(items, row.takes, row.name)
    official = urlsplit(base_url).hostname == row.official_host
    reasoning = is_reasoning(request.model)
    body: dict[str, Any] = {"model": request.model, **_tools(row, request)}
    body |= row.wire.encode_messages(items)
    body["stream"] = True
    body[row.limit if official else row.limit_elsewhere] = request.max_tokens
    if request.temperature is not None and not reasoning:
        body["temperature"] = _number(request.temperature)
    if request.response_format is not None:
        body |= row.wire.encode_text_format(request.response_format)
    body |= row.extra
    if official:
        body |= row.official_extra
    if official and reasoning:
        body |= row.reasoning_extra
    return body


def is_guided(row: Provider, request: GenerateRequest) -> bool:
    """Returns whether the answer is constrained to one call (`required` and named choices, if the provider ignores
    them)."""
    return row.writes_calls_as_text and guided_format(request.specs, request.tool_choice) is not None


def _tools(row: Provider, request: GenerateRequest) -> Mapping[str, Any]:
    if request.strict and not row.strict_calls:
        raise InvalidValue(f"The provider {row.name} can't be asked for strict calls.", path="strict")
    if row.json_tool_protocol and request.specs:
        raise InvalidValue(
            f"The provider {row.name} gets tools as text: ask it through `demiurge.models.json_tools.ask_model`.",
            path="specs",
        )
    if not row.writes_calls_as_text:
        encoded = row.wire.encode_tools(request.specs, request.tool_choice)
        return strict_tools(encoded, request.strict) if request.strict else encoded
    if request.tool_choice == "none":
        return {}
    specs = in_natural_order(request.specs)
    guided = guided_format(specs, request.tool_choice)
    tools = row.wire.encode_tools(specs)
    return tools if guided is None else {**tools, "response_format": guided}


def _check(request: GenerateRequest) -> None:
    if not request.items:
        raise InvalidValue("A request needs at least one message.", path="items")
    if not request.model:
        raise InvalidValue("A request needs the name of a model.", path="model")
    if request.max_tokens < 1:
        raise InvalidValue("The limit of tokens must be at least 1.", path="max_tokens")


def _number(text: str) -> int | float:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or not 0 <= number <= 2:
        raise InvalidValue("The temperature must be a decimal number from 0 to 2.", path="temperature")
    return int(number) if number == number.to_integral_value() else float(number)
