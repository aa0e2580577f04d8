"""The prompts, resources and completions of the fixture server."""

from __future__ import annotations

import json
import re

import mcp_types as types
from mcp.shared.exceptions import MCPError

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEMPLATE = "test://template/{id}/data"
_ADDRESS = re.compile(r"test://template/([^/]+)/data")
_WORDS = {"arg1": ("paris", "park", "party", "testing"), "id": ("1", "12", "123")}


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


def embedded(uri: str, words: str, mime: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime, text=words))


def _prompt(name: str, **arguments: str) -> types.Prompt:
    takes = [types.PromptArgument(name=each, description=what, required=True) for each, what in arguments.items()]
    return types.Prompt(name=name, description=f"The fixture {name}.", arguments=takes or None)


PROMPTS = [
    _prompt("test_simple_prompt"),
    _prompt("test_prompt_with_arguments", arg1="The first.", arg2="The second."),
    _prompt("test_prompt_with_embedded_resource", resourceUri="The address of the resource."),
    _prompt("test_prompt_with_image"),
    _prompt("test_input_required_result_prompt"),
    _prompt("extra"),
]

RESOURCES = [
    types.Resource(
        uri="test://static-text", name="static-text", description="A text that stays.", mime_type="text/plain"
    ),
    types.Resource(
        uri="test://static-binary", name="static-binary", description="An image that stays.", mime_type="image/png"
    ),
    types.Resource(
        uri="test://watched-resource", name="watched-resource", description="A text to watch.", mime_type="text/plain"
    ),
]

TEMPLATES = [
    types.ResourceTemplate(
        uri_template=TEMPLATE, name="template", description="Data by id.", mime_type="application/json"
    )
]


def prompt_messages(name: str, arguments: dict[str, str], context: str) -> list[types.PromptMessage]:
    """Returns the messages of a prompt. Raises MCPError for an unknown one."""
    blocks: dict[str, list[types.ContentBlock]] = {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            embedded(arguments.get("resourceUri", ""), "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [
            types.ImageContent(data=DOT, mime_type="image/png"),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt": [text(f"Use this context: {context}")],
        "extra": [text("The extra prompt.")],
    }
    if name not in blocks:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")
    return [types.PromptMessage(role="user", content=block) for block in blocks[name]]


def read(uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    """Returns what is at an address. Raises MCPError for one where nothing is."""
    if uri == "test://static-binary":
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=DOT)
    if uri in ("test://static-text", "test://watched-resource"):
        words = f"This is the content of the {uri[7:].replace('-', ' ')} resource."
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    if (found := _ADDRESS.fullmatch(uri)) is not None:
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})


def completed(params: types.CompleteRequestParams) -> types.CompleteResult:
    """Returns the words that an argument may go on with."""
    words = [word for word in _WORDS.get(params.argument.name, ()) if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))
