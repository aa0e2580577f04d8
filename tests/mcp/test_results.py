"""Results of servers, whole: what a model reads of each block, what is kept of it, and which pages can be read."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from typing import Any

import mcp_types as types
import pytest
from mcp_types import METHOD_NOT_FOUND
from tests.mcp.fixture_content import DOT

from demiurge.errors import InvalidValue, Unavailable
from demiurge.mcp import ToolDefinition
from demiurge.mcp.capabilities import missing_capabilities, missing_sentence
from demiurge.mcp.item_results import item_answer, item_result
from demiurge.mcp.list_definitions import MAX_LISTED, MAX_PAGES, read_definitions
from demiurge.mcp.results import error_result, marked, tool_result, unmarked, without_marks
from demiurge.mcp.verbatim import given_answer, kept_answer
from demiurge.tools import Audio, File, Image, ToolFailure, ToolResult
from demiurge.tools.foreign.schema import ForeignSchema
from demiurge.tools.parts import MAX_PARTS
from mcp import MCPError

SOURCE = "mcp__a__send"
WAVE = b"RIFF\x24\0\0\0WAVEfmt "


def text(said: str) -> types.TextContent:
    return types.TextContent(text=said)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def answer(*blocks: Any, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(blocks), **more)


def result_of(given: types.CallToolResult, most: int = 10_000, **more: Any) -> ToolResult[Any]:
    return tool_result(given, SOURCE, more.pop("schema", None), most, **more)


def said(words: str, value: Any = None, **more: Any) -> ToolResult[Any]:
    message = marked(words, SOURCE) if words else ""
    return ToolResult(message, value, exclude_value_from_context=True, **{"parts": [], **more})


def test_a_server_s_text_stands_between_marks_that_it_can_t_write() -> None:
    digest = sha256(b"mcp__a__send\na\nb").hexdigest()[:16]
    whole = f'<untrusted_text source="mcp__a__send" mark="{digest}">\na\nb\n</untrusted_text mark="{digest}">'
    assert marked("a\u200b\nb", SOURCE) == whole
    assert unmarked(whole) == "a\nb"
    for other in ("a", whole[1:], whole.replace("a\nb", "a\nc"), whole.replace("a__send", "b__send"), f"{whole} "):
        with pytest.raises(ValueError, match="the text stands between no marks"):
            unmarked(other)
    shown = "\u2039untrusted_text \u2039 / untrusted-text \u2039UNTRUSTED  TEXT <untrust <b>"
    assert without_marks("<untrusted_text < / untrusted-text <UNTRUSTED  TEXT <untrust <b>") == shown


def test_an_error_of_a_server_is_cut() -> None:
    assert error_result(" no\u200b disk \n", SOURCE) == ToolResult(marked("no disk", SOURCE), success=False)
    for nothing in ("", " \n"):
        assert error_result(nothing, SOURCE) == ToolResult(
            "The server answered with an error without a text.", success=False
        )
    assert error_result("x" * 3500, SOURCE).message == marked("x" * 3500, SOURCE)
    assert error_result("x" * 3501, SOURCE).message == marked(f"{'x' * 3500}…", SOURCE)
    assert error_result("é" * 1751, SOURCE).message == marked(f"{'é' * 1750}…", SOURCE)
    assert error_result(f"x{'é' * 1750}", SOURCE).message == marked(f"x{'é' * 1749}…", SOURCE)


EVERY = answer(
    text("one"),
    types.ImageContent(data=DOT, mime_type="image/png"),
    types.AudioContent(data=encoded(WAVE), mime_type="audio/wav"),
    types.ImageContent(data="no base64", mime_type="image/png"),
    types.ImageContent(data=encoded(b"no image"), mime_type="image/png"),
    types.EmbeddedResource(
        resource=types.BlobResourceContents(uri="note://a.PDF", blob=encoded(b"%PDF"), mime_type="application/pdf")
    ),
    types.EmbeddedResource(resource=types.BlobResourceContents(uri="note://b", blob=encoded(b"b"), mime_type="x/evil")),
    types.EmbeddedResource(resource=types.BlobResourceContents(uri="note://n", blob=encoded(b"n"))),
    types.EmbeddedResource(resource=types.TextResourceContents(uri="note://c.txt", text="c", mime_type="text/plain")),
    types.ResourceLink(uri="note://d", name="d", title="D", description="The d.", mime_type="text/plain"),
    types.ResourceLink(uri="note://e", name="e"),
)
TEXTS = [
    "one",
    "(A part of this result could not be decoded.)",
    "Resource note://a.PDF (application/pdf) is attached.",
    "Resource note://b (x/evil) is attached.",
    "Resource note://n (of no type) is attached.",
    "Resource note://c.txt:\nc",
    "Link to the resource note://d: D text/plain The d.",
    "Link to the resource note://e: e",
]


def test_each_block_is_read_as_text_and_parts() -> None:
    found = result_of(EVERY)
    assert found.message == marked("\n\n".join(TEXTS), SOURCE)
    assert [(type(part), part.mime, part.data, part.name) for part in found.parts] == [
        (Image, "image/png", base64.b64decode(DOT), ""),
        (Audio, "audio/wav", WAVE, ""),
        (File, "text/plain", b"no image", ""),
        (File, "text/plain", b"%PDF", "file.PDF"),
        (File, "text/plain", b"b", "file"),
        (File, "text/plain", b"n", "file"),
        (File, "text/plain", b"c", "file.txt"),
    ]
    assert (found.value, found.success, found.verbatim) == (None, True, None)
    assert result_of(answer()) == ToolResult("The tool returned nothing.", exclude_value_from_context=True, parts=[])
    picture = result_of(answer(types.ImageContent(data=DOT, mime_type="image/png")))
    assert (picture.message, len(picture.parts)) == ("", 1)


@pytest.mark.parametrize(
    ("texts", "structured", "shown"),
    [
        (["2 rows"], {"n": 2}, ["2 rows", '{"n":2}']),
        (['{"n": 2}'], {"n": 2}, ['{"n": 2}']),
        (["more", ' {"n": 2}'], {"n": 2}, ["more", ' {"n": 2}']),
        (["{no json"], {"n": 2}, ["{no json", '{"n":2}']),
        (["a"], {"result": "a"}, ["a"]),
        (["a", "b"], {"result": ["a", "b"]}, ["a", "b"]),
        (["[1]", "b"], {"result": [[1], "b"]}, ["[1]", "b"]),
        (["a"], {"result": ["a", "b"]}, ["a", '{"result":["a","b"]}']),
        (["b"], {"result": "a"}, ["b", '{"result":"a"}']),
        (["a"], {"result": "a", "more": 1}, ["a", '{"result":"a","more":1}']),
        (["2"], {"result": 2}, ["2", '{"result":2}']),
        (["", "a"], None, ["a"]),
        ([], {}, ["{}"]),
    ],
)
def test_a_model_reads_structured_content_once(texts: list[str], structured: Any, shown: list[str]) -> None:
    given = answer(*map(text, texts), structured_content=structured)
    assert result_of(given) == said("\n\n".join(shown), structured)


def test_a_result_has_at_most_its_bytes_in_all() -> None:
    image = types.ImageContent(data=encoded(b"123"), mime_type="image/png")
    given = answer(text("é"), image, structured_content={"n": 1})
    assert result_of(given, 12).value == {"n": 1}
    with pytest.raises(ToolFailure) as refused:
        result_of(given, 11)
    assert refused.value.error_code == "result_too_large"


def test_structured_content_fits_the_pinned_schema() -> None:
    schema = ForeignSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert result_of(answer(structured_content={"n": 1}), schema=schema) == said('{"n":1}', {"n": 1})
    for wrong in (None, {}, {"n": "x"}):
        with pytest.raises(ToolFailure) as refused:
            result_of(answer(text("x"), structured_content=wrong), schema=schema)
        assert refused.value.error_code == "output_validation"
    failed = result_of(answer(text("no"), text("disk"), is_error=True), schema=schema)
    assert failed == ToolResult(marked("no\n\ndisk", SOURCE), success=False)


def test_a_result_has_a_bounded_number_of_parts() -> None:
    images = [types.ImageContent(data=encoded(b"%d" % at), mime_type="image/png") for at in range(MAX_PARTS + 2)]
    found = result_of(answer(*images))
    assert len(found.parts) == MAX_PARTS
    assert found.message == marked("(2 more parts of this result were left out.)", SOURCE)
    assert result_of(answer(*images[:MAX_PARTS])).message == ""


def test_an_answer_is_kept_with_its_bytes_once() -> None:
    found = result_of(EVERY, keeps=True)
    assert found.verbatim is not None
    kept = json.loads(found.verbatim)
    assert [block.get("data", block.get("resource", {}).get("blob")) for block in kept["content"]] == [
        None,
        0,
        1,
        "no base64",
        2,
        3,
        4,
        5,
        None,
        None,
        None,
    ]
    plain = EVERY.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"result_type"})
    assert given_answer(found.verbatim, [part.data for part in found.parts]) == plain
    odd = answer(
        types.ImageContent(data="QQ", mime_type="i/p"), text("\ud800é"), _meta={"a": 1}, structured_content={"n": 1}
    )
    written = kept_answer(odd, [File("", b"A", "")])
    assert written == (
        b'{"_meta":{"a":1},"content":[{"type":"image","data":"QQ","mimeType":"i/p"},{"type":"text","text":"?\xc3\xa9"}],'
        b'"structuredContent":{"n":1},"isError":false}'
    )
    failed = answer(text("no"), is_error=True)
    assert result_of(failed, keeps=True).verbatim == kept_answer(failed)
    assert result_of(failed, len(kept_answer(failed)), keeps=True).verbatim is not None
    assert result_of(failed, len(kept_answer(failed)) - 1, keeps=True).verbatim is None
    twice = [types.ImageContent(data=DOT, mime_type="image/png")] * 2
    assert b'"data":0' in (result_of(answer(*twice), keeps=True).verbatim or b"")
    assert b'"data":1' not in (result_of(answer(*twice), keeps=True).verbatim or b"")


def test_an_item_is_kept_as_json_with_its_bytes_as_parts() -> None:
    message = types.PromptMessage(
        role="user", content=types.ImageContent(data=DOT, mime_type="image/png", _meta={"a": 1})
    )
    sound = types.PromptMessage(role="user", content=types.AudioContent(data=encoded(WAVE), mime_type="audio/wav"))
    prompt = types.GetPromptResult(description="He\u200bllo é", messages=[message, sound], _meta={"b": 1})
    node = {
        "description": "Hello é",
        "messages": [
            {"role": "user", "content": {"type": "image", "data": 0, "mimeType": "image/png"}},
            {"role": "user", "content": {"type": "audio", "data": 1, "mimeType": "audio/wav"}},
        ],
    }
    found = item_result(prompt, SOURCE, 10_000)
    assert json.loads(unmarked(found.message)) == node
    assert unmarked(found.message) == json.dumps(json.loads(unmarked(found.message)), ensure_ascii=False, indent=2)
    assert [(type(part), part.mime) for part in found.parts] == [(Image, "image/png"), (Audio, "audio/wav")]
    back = item_answer(found.message, [part.data for part in found.parts])
    assert back["messages"][0]["content"] == {"type": "image", "data": DOT, "mimeType": "image/png"}
    file = types.BlobResourceContents(uri="note://a", blob=encoded(b"a"), mime_type="image/png")
    read = types.ReadResourceResult(contents=[file])
    kept = item_result(read, SOURCE, 10_000)
    assert [(type(part), part.mime, part.data) for part in kept.parts] == [(File, "text/plain", b"a")]
    size = len(unmarked(kept.message).encode()) + 1
    assert item_result(read, SOURCE, size) == kept
    with pytest.raises(ToolFailure) as refused:
        item_result(read, SOURCE, size - 1)
    assert refused.value.error_code == "result_too_large"
    many = types.ReadResourceResult(contents=[file] * (MAX_PARTS + 1))
    with pytest.raises(ToolFailure) as refused:
        item_result(many, SOURCE, 1_000_000)
    assert refused.value.error_code == "result_too_large"
    assert len(item_result(types.ReadResourceResult(contents=[file] * MAX_PARTS), SOURCE, 1_000_000).parts) == MAX_PARTS
    broken = types.ReadResourceResult(contents=[file.model_copy(update={"blob": "x"})])
    with pytest.raises(ToolFailure) as refused:
        item_result(broken, SOURCE, 1000)
    assert (refused.value.error_code, refused.value.message) == (
        "execution",
        "A part of the result could not be decoded.",
    )
    for other in ("x", marked("[]", SOURCE), marked('{"data": 3}', SOURCE), marked("{", SOURCE)):
        with pytest.raises(InvalidValue) as wrong:
            item_answer(other, [])
        assert wrong.value.message == "the text is no answer to a prompt or a resource"


@pytest.mark.parametrize(
    ("needed", "names", "known"),
    [
        ({"sampling": {}}, "sampling", {"sampling": {}}),
        ({"sampling": {"tools": {}, "context": {}}}, "sampling.context, sampling.tools", None),
        ({"roots": {}, "elicitation": {"url": {}, "evil": {}}, "evil": {}}, "elicitation.url, roots", None),
        ({"roots": 3}, "roots", {"roots": {}}),
    ],
)
def test_the_abilities_that_a_client_lacks_are_named(needed: Any, names: str, known: Any) -> None:
    sentence = f"The server needs a client that offers {names}, and this one does not."
    assert missing_sentence({"requiredCapabilities": needed}) == sentence
    if known is not None:
        assert missing_capabilities(sentence) == known
    both = missing_sentence({"requiredCapabilities": {"sampling": {"tools": {}, "context": {}}, "roots": {}}})
    assert missing_capabilities(both) == {"roots": {}, "sampling": {"context": {}, "tools": {}}}
    others: list[Any] = [None, [], {}, {"requiredCapabilities": {"evil": {}}}, {"requiredCapabilities": 3}]
    for other in others:
        assert missing_sentence(other) == "The server needs a client that offers more than this one does."
        assert missing_capabilities(missing_sentence(other)) is None


# -- lists ------------------------------------------------------------------------------------------------------------


class Client:
    """A client of a server whose lists have these `pages`: an exception stands for one that is refused."""

    def __init__(self, **pages: Any) -> None:
        self.pages = pages
        self.server_capabilities = types.ServerCapabilities(
            prompts=types.PromptsCapability() if "prompts" in pages else None,
            resources=types.ResourcesCapability() if "resources" in pages else None,
        )
        self.session = self
        self.asked: list[tuple[str, str | None]] = []

    async def _page(self, kind: str, params: Any) -> Any:
        self.asked.append((kind, params.cursor))
        pages = self.pages.get(kind, [[]])
        if callable(pages):
            return pages(params.cursor)
        at = int(params.cursor or 0)
        if isinstance(pages[at], Exception):
            raise pages[at]
        following = str(at + 1) if at + 1 < len(pages) else None
        form: Any = {
            "tools": types.ListToolsResult,
            "prompts": types.ListPromptsResult,
            "resources": types.ListResourcesResult,
            "resource_templates": types.ListResourceTemplatesResult,
        }[kind]
        return form(**{kind: pages[at]}, next_cursor=following)

    async def list_tools(self, *, params: Any) -> Any:
        return await self._page("tools", params)

    async def list_prompts(self, *, params: Any) -> Any:
        return await self._page("prompts", params)

    async def list_resources(self, *, params: Any) -> Any:
        return await self._page("resources", params)

    async def list_resource_templates(self, *, params: Any) -> Any:
        return await self._page("resource_templates", params)


def tool(name: str, **more: Any) -> types.Tool:
    return types.Tool(name=name, input_schema={"type": "object"}, **more)


async def listed(**pages: Any) -> tuple[tuple[ToolDefinition, ...], list[str]]:
    client: Any = Client(**pages)
    return await read_definitions(client)


async def test_every_field_of_a_list_is_read() -> None:
    hints = types.ToolAnnotations(title="T", read_only_hint=True)
    icons = [types.Icon(src="https://a.example/i.png")]
    dated = types.Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z")
    found, problems = await listed(
        tools=[
            [tool("a", title="A", description="Does.", output_schema={"x": 1}, annotations=hints, icons=icons)],
            [tool("b", _meta={"m": 1})],
        ],
        prompts=[
            [
                types.Prompt(
                    name="p",
                    title="P",
                    description="Asks.",
                    arguments=[types.PromptArgument(name="who", required=True)],
                    icons=icons,
                ),
                types.Prompt(name="q"),
            ]
        ],
        resources=[
            [
                types.Resource(
                    uri="note://r", name="r", title="R", description="Has.", mime_type="t/p", annotations=dated, size=3
                )
            ]
        ],
        resource_templates=[
            [
                types.ResourceTemplate(
                    uri_template="note://{id}", name="t", mime_type="t/p", annotations=dated, icons=icons
                )
            ]
        ],
    )
    icon = [{"src": "https://a.example/i.png"}]
    assert problems == []
    assert [each.to_json() for each in found] == [
        {
            "name": "a",
            "title": "A",
            "description": "Does.",
            "inputSchema": {"type": "object"},
            "outputSchema": {"x": 1},
            "annotations": {"title": "T", "readOnlyHint": True},
            "icons": icon,
        },
        {"name": "b", "inputSchema": {"type": "object"}, "_meta": {"m": 1}},
        {
            "name": "p",
            "title": "P",
            "description": "Asks.",
            "kind": "prompt",
            "arguments": [{"name": "who", "required": True}],
            "icons": icon,
        },
        {"name": "q", "kind": "prompt", "arguments": []},
        {
            "name": "r",
            "title": "R",
            "description": "Has.",
            "kind": "resource",
            "uri": "note://r",
            "mimeType": "t/p",
            "annotations": {"audience": ["user"], "priority": 0.5},
        },
        {
            "name": "t",
            "kind": "template",
            "uriTemplate": "note://{id}",
            "mimeType": "t/p",
            "annotations": {"audience": ["user"], "priority": 0.5},
            "icons": icon,
        },
    ]


async def test_only_what_a_server_declares_is_asked_for() -> None:
    client: Any = Client(tools=[[tool("a")], [tool("b")]])
    found, problems = await read_definitions(client)
    assert ([each.name for each in found], problems) == (["a", "b"], [])
    assert client.asked == [("tools", None), ("tools", "1")]
    client = Client(tools=[[]], resources=[[]])
    await read_definitions(client)
    assert sorted(kind for kind, _ in client.asked) == ["resource_templates", "resources", "tools"]


async def test_an_unclear_entry_of_a_list_is_left_out_and_named() -> None:
    found, problems = await listed(
        tools=[[tool("a"), tool("b"), tool("a"), tool("a"), tool("B"), tool("x" * 129), tool("prompt:p")]],
        prompts=[[types.Prompt(name="b"), types.Prompt(name="B")]],
        resources=[[types.Resource(uri="bad\u202e", name="r")]],
        resource_templates=[[types.ResourceTemplate(uri_template="note://{a}{b}", name="t")]],
    )
    assert [each.label for each in found] == ["b", "B", "prompt:b", "prompt:B"]
    assert problems == [
        "The tool a is listed twice, so it is left out.",
        f"The tool {'x' * 129} is left out: name: must be text of 1 to 128 characters.",
        "The tool prompt:p is left out: the name begins like that of a prompt or a resource.",
        "The resource bad<U+202E> is left out: uri: must be an address of at most 2048 characters, such as file:///a.",
        "The template note://{a}{b} is left out: its template of addresses can't be used.",
        "The tool B reads like b.",
        "The prompt B reads like b.",
    ]


async def test_a_list_ends_at_its_limits() -> None:
    names = [tool(f"t{at}") for at in range(MAX_LISTED + 1)]
    found, problems = await listed(tools=[names[:MAX_LISTED]])
    assert (len(found), problems) == (MAX_LISTED, [])
    found, problems = await listed(tools=[names])
    assert len(found) == MAX_LISTED
    assert problems == [f"The server lists too many tools: only its first {MAX_LISTED} are read."]
    big = [tool(f"t{at}", description="x" * 260_000) for at in range(40)]
    found, problems = await listed(tools=[big])
    assert len(found) == 33
    assert problems == ["The server lists too many tools: only its first 33 are read."]
    found, problems = await listed(tools=[[tool(f"t{at}")] for at in range(MAX_PAGES)])
    assert (len(found), problems) == (MAX_PAGES, [])
    found, problems = await listed(tools=[[tool(f"t{at}")] for at in range(MAX_PAGES + 1)])
    assert len(found) == MAX_PAGES
    assert problems == [f"The server's list of tools does not end after {MAX_PAGES} pages."]
    same = types.ListToolsResult(tools=[], next_cursor="again")
    _, problems = await listed(tools=lambda cursor: same)
    assert problems == ["The server's list of tools repeats a page."]


ABSENT = MCPError(METHOD_NOT_FOUND, "no such method")
FAILED = MCPError(-32603, "failed")


async def test_a_list_that_a_server_does_not_give_is_empty() -> None:
    found, problems = await listed(
        tools=[ABSENT],
        prompts=[[types.Prompt(name="p")], FAILED],
        resources=[ABSENT],
        resource_templates=[ABSENT],
    )
    assert found == ()
    assert problems == [
        "The server offers no tools.",
        "The server gave no valid list of its prompts.",
        "The server offers no resources.",
    ]
    for error in (FAILED, ValueError("x"), RuntimeError("x")):
        with pytest.raises(Unavailable) as refused:
            await listed(tools=[error])
        assert (refused.value.code, refused.value.message) == (
            "server_unavailable",
            "The server gave no valid list of its tools.",
        )
        assert refused.value.__cause__ is error
    with pytest.raises(Unavailable):
        await listed(tools=[[tool("a")], ABSENT])
