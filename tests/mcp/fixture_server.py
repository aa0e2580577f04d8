"""A server with everything that the scenarios of the protocol's conformance suite call, in both eras, on the SDK.

Over standard input and output: `python -m tests.mcp.fixture_server`; at an address: with `--http PORT`. Each entry of
`FIXTURES` is one tool: what it is called, its arguments, and the function that answers.
"""

from __future__ import annotations

import argparse
import asyncio
import warnings
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from tests.mcp.fixture_content import (
    DOT,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    completed,
    embedded,
    prompt_messages,
    read,
    text,
)
from tests.mcp.fixture_questions import SCHEMAS, asked, form, missing, roots, sample

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Answer = types.CallToolResult | types.InputRequiredResult

READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
STEP_S = 0.05
REPORT_S = 0.25
"""Longer than the pause between two reports of progress (`tools.execution.progress`): none may be left out."""


def result(*blocks: types.ContentBlock, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=list(blocks), is_error=is_error)


async def constant(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    return CONSTANTS[params.name]


async def progress(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await asyncio.sleep(REPORT_S)
    return result(text("Three steps."))


async def log(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)
        await asyncio.sleep(STEP_S)
    return result(text("Three lines were logged."))


async def change_tools(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    server.has_extra = not server.has_extra
    await server.bus.publish(ToolsListChanged())
    if not is_modern(ctx):
        await ctx.session.send_tool_list_changed()
    return result(text("The list of tools has changed."))


async def change_prompts(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    server.has_extra = not server.has_extra
    await server.bus.publish(PromptsListChanged())
    if not is_modern(ctx):
        await ctx.session.send_prompt_list_changed()
    return result(text("The list of prompts has changed."))


async def close_stream(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(STEP_S)
    return result(text("The stream was closed on the way."))


async def greet(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    return result(text(f"Hello, {(params.arguments or {}).get('name')}!"))


async def slow(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    await asyncio.sleep(float((params.arguments or {}).get("seconds", 0)))
    return result(text("computed"))


async def fail_later(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    await asyncio.sleep(1.2)
    return result(text("The job failed."), is_error=True)


async def protocol_error(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    await asyncio.sleep(1.2)
    raise MCPError(types.INTERNAL_ERROR, "The job broke.")


async def question(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    """Asks what `QUESTIONS` has for the tool, then tells the answers."""
    requests = {
        key: request(params) if callable(request) else request for key, request in QUESTIONS[params.name].items()
    }
    answers = await asked(ctx, params, requests, "round 1")
    if isinstance(answers, types.InputRequiredResult):
        return answers
    shown = " ".join(f"{key}={answer.model_dump_json(exclude_none=True)}" for key, answer in answers.items())
    return result(text(f"state-ok {shown}"))


async def two_rounds(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    first = {"step1": form("Step 1: What is your name?", SCHEMAS["name"])}
    second = {"step2": form("Step 2: What is your favorite color?", SCHEMAS["color"])}
    if params.request_state != "round 2":
        answers = await asked(ctx, params, first, "round 1")
        if isinstance(answers, types.InputRequiredResult):
            return answers
        params = params.model_copy(update={"input_responses": None})
    answers = await asked(ctx, params, second, "round 2")
    return answers if isinstance(answers, types.InputRequiredResult) else result(text("Both answers have come."))


async def by_capability(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    """Asks only what the client has declared that it can answer."""
    can = ctx.session.client_capabilities or types.ClientCapabilities()
    requests: types.InputRequests = {}
    if can.elicitation is not None:
        requests["confirm"] = form("Please confirm", SCHEMAS["ok"])
    if can.sampling is not None:
        requests["greeting"] = sample("Generate a greeting", 50)
    answers = await asked(ctx, params, requests, "round 1")
    return answers if isinstance(answers, types.InputRequiredResult) else result(text("All answers have come."))


async def needs_sampling(server: FixtureServer, ctx: Context, params: Params) -> Answer:
    """Needs a client whose model may use tools."""
    needed = types.ClientCapabilities(sampling=types.SamplingCapability(tools=types.SamplingToolsCapability()))
    if not ctx.session.check_client_capability(needed):
        raise missing(needed)
    return result(text("The client can be asked for its model."))


CONSTANTS = {
    "test_simple_text": result(text("This is a simple text response for testing.")),
    "test_image_content": result(types.ImageContent(data=DOT, mime_type="image/png")),
    "test_audio_content": result(types.AudioContent(data=SOUND, mime_type="audio/wav")),
    "test_embedded_resource": result(embedded("test://embedded-resource", "This is an embedded resource content.")),
    "test_multiple_content_types": result(
        text("Multiple content types test:"),
        types.ImageContent(data=DOT, mime_type="image/png"),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ),
    "test_error_handling": result(text("This tool intentionally returns an error for testing"), is_error=True),
    "json_schema_2020_12_tool": result(text("The arguments fit.")),
    "test_x_mcp_header": result(text("The header fits.")),
    "extra": result(text("The extra tool.")),
}

NAME = form("What is your name?", SCHEMAS["name"])
CONFIRM = form("Please confirm", SCHEMAS["ok"])

QUESTIONS: dict[str, dict[str, Any]] = {
    "test_elicitation": {"user": lambda params: form((params.arguments or {})["message"], SCHEMAS["user"])},
    "test_elicitation_sep1034_defaults": {"defaults": form("Please check the defaults", SCHEMAS["defaults"])},
    "test_elicitation_sep1330_enums": {"choices": form("Please choose", SCHEMAS["choices"])},
    "test_streaming_elicitation": {"confirm": CONFIRM},
    "test_sampling": {"answer": lambda params: sample((params.arguments or {})["prompt"], 100)},
    "test_input_required_result_elicitation": {"user_name": NAME},
    "test_input_required_result_sampling": {"capital_question": sample("What is the capital of France?", 100)},
    "test_input_required_result_list_roots": {"client_roots": roots()},
    "test_input_required_result_request_state": {"confirm": CONFIRM},
    "test_input_required_result_tampered_state": {"confirm": CONFIRM},
    "test_input_required_result_multiple_inputs": {
        "user_name": NAME,
        "greeting": sample("Generate a greeting", 50),
        "client_roots": roots(),
    },
    "confirm_delete": {"confirm": form("Delete the file?", SCHEMAS["confirm"])},
    "multi_input": {"first": form("The first?", SCHEMAS["confirm"]), "second": form("The second?", SCHEMAS["confirm"])},
    "test_tool_with_task": {"user_name": NAME},
}

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "test_elicitation": SCHEMAS["message"],
    "test_sampling": SCHEMAS["prompt"],
    "greet": SCHEMAS["name"],
    "slow_compute": SCHEMAS["slow"],
    "confirm_delete": SCHEMAS["file"],
    "json_schema_2020_12_tool": SCHEMAS["2020-12"],
    "test_x_mcp_header": SCHEMAS["header"],
}

FIXTURES = {
    **dict.fromkeys(CONSTANTS, constant),
    **dict.fromkeys(QUESTIONS, question),
    "test_tool_with_progress": progress,
    "test_tool_with_logging": log,
    "test_logging_tool": log,
    "test_trigger_tool_change": change_tools,
    "test_trigger_prompt_change": change_prompts,
    "test_reconnection": close_stream,
    "test_missing_capability": needs_sampling,
    "test_input_required_result_multi_round": two_rounds,
    "test_input_required_result_capabilities": by_capability,
    "greet": greet,
    "slow_compute": slow,
    "failing_job": fail_later,
    "protocol_error_job": protocol_error,
}


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version >= "2026-07-28"


class _Announcing(Server[Any]):
    """A server that says in the older era too that its lists change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


class FixtureServer:
    """The server. `has_extra`: whether its lists have one entry more, which two of the tools change."""

    def __init__(self) -> None:
        self.has_extra = False
        self.bus = InMemorySubscriptionBus()
        self.subscribed: set[str] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            self.server: Server[Any] = _Announcing(
                "fixture",
                version="1.0",
                on_list_tools=self.list_tools,
                on_call_tool=self.call_tool,
                on_list_prompts=self.list_prompts,
                on_get_prompt=self.get_prompt,
                on_list_resources=self.list_resources,
                on_list_resource_templates=self.list_templates,
                on_read_resource=self.read_resource,
                on_subscribe_resource=self.subscribe,
                on_unsubscribe_resource=self.unsubscribe,
                on_completion=self.complete,
                on_set_logging_level=self.set_level,
                on_subscriptions_listen=ListenHandler(self.bus),
            )
        self.server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=None))

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        names = [name for name in FIXTURES if name != "extra" or self.has_extra]
        tools = [
            types.Tool(
                name=name,
                description=f"The fixture {name}.",
                input_schema=ARGUMENTS.get(name, NO_ARGUMENTS),
                annotations=READS,
            )
            for name in names
        ]
        return types.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")

    async def call_tool(self, ctx: Context, params: Params) -> Answer:
        if params.name not in FIXTURES:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            return await FIXTURES[params.name](self, ctx, params)

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        prompts = [prompt for prompt in PROMPTS if prompt.name != "extra" or self.has_extra]
        return types.ListPromptsResult(prompts=prompts, ttl_ms=0, cache_scope="private")

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        context = ""
        if params.name == "test_input_required_result_prompt":
            request = {"user_context": form("What context should the prompt use?", SCHEMAS["context"])}
            answers = await asked(ctx, params, request, None)
            if isinstance(answers, types.InputRequiredResult):
                return answers
            context = answers["user_context"].model_dump_json(exclude_none=True)
        return types.GetPromptResult(messages=prompt_messages(params.name, params.arguments or {}, context))

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=RESOURCES, ttl_ms=0, cache_scope="private")

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=TEMPLATES, ttl_ms=0, cache_scope="private")

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[read(str(params.uri))], ttl_ms=0, cache_scope="private")

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.discard(str(params.uri))
        return types.EmptyResult()

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return completed(params)

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()


async def over_stdio() -> None:
    made = FixtureServer().server
    async with stdio_server() as (incoming, outgoing):
        await made.run(incoming, outgoing, made.create_initialization_options())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, metavar="PORT")
    port = parser.parse_args().http
    if port is None:
        asyncio.run(over_stdio())
    else:
        uvicorn.run(FixtureServer().server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")
