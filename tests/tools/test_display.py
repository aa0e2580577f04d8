"""Views in a notebook: texts of tools and models are shown whole, and never become markup."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from demiurge import Redaction, ToolCatalog, ToolEffect, ToolPolicy, ToolResult, ToolRunner, ToolUserError, tool
from demiurge.bootstrap.reply import Reply, ToolCallView
from demiurge.bootstrap.trace_view import TraceTree
from demiurge.tools.display import MOST_CHARACTERS, MOST_ROWS, ShownRows, Table, Verbatim, View, shown
from demiurge.world.record import GENESIS, Stamp, seal_record

TAGS = {"div", "style", "strong", "p", "pre", "span", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"class", "dir", "scope"}

ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</style></td></table></div><iframe src=//evil.example>",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png) <https://evil.example>",
    "| a | b |\n|---|---|\n# heading\n\n---\n> quote\n- item\n1. one",
    "```\n</pre><script>x</script>\n````\n<b>",
    "$\\href{javascript:alert(1)}{x}$ \\(x\\) \\[y\\] $$z$$ \\begin{align}x\\end{align}",
    "*bold* _it_ ~~gone~~ `code` &lt;b&gt; &#x3C;b&#x3E; \\<b\\>",
    "www.evil.example https://evil.example a@evil.example",
)


class Parsed(HTMLParser):
    """The elements, the attributes and the text of some HTML, without the style sheet."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.pieces: list[str] = []
        self._styles = False
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._styles = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._styles = self._styles and tag != "style"

    def handle_data(self, data: str) -> None:
        if not self._styles:
            self.texts.append(data)


def html_of(value: Any) -> str:
    html: str = value._repr_html_()
    return html


def markdown_of(value: Any) -> str:
    markdown: str = value._repr_markdown_()
    return markdown


@shown
class Example:
    """A value whose view has a text in every place."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _view(self) -> View:
        text = self.text
        return View(text, text, [(text, text)], [text, Verbatim(text), Table((text,), [(text,), (7,), (None,)])])


def check(value: Any, *texts: str) -> None:
    """Raises AssertionError if a text becomes markup, or is not shown."""
    html = html_of(value)
    parsed = Parsed(html)
    assert parsed.tags <= TAGS
    assert parsed.attributes <= ATTRIBUTES
    assert html.count("<style>") == 1
    for text in texts:
        assert text in parsed.text
    assert not any("$" in piece and len(piece) > 1 for piece in parsed.texts)
    assert not any("\\" in piece and len(piece) > 1 for piece in parsed.texts)
    rendered = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").render(markdown_of(value))
    assert Parsed(rendered).tags <= {
        "p",
        "strong",
        "ul",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
        "code",
    }


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_text_never_becomes_markup_and_is_shown_whole(attack: str) -> None:
    check(Example(attack), attack)


@given(st.text(max_size=60))
def test_no_text_at_all_becomes_markup(text: str) -> None:
    check(Example(text))


@given(st.text(st.sampled_from("<>&\"'`$\\|[]()*_#~-\n abc"), max_size=40))
def test_markdown_shows_exactly_the_text(text: str) -> None:
    rendered = MarkdownIt("commonmark").render(markdown_of(ShownRows([], text, ())))
    assert Parsed(rendered).text.strip() == " ".join(f"{text}: 0".split())


def test_characters_that_steer_a_terminal_or_turn_the_text_are_spelled_out() -> None:
    for made in (html_of(Example("a\x1b[2Jb\u202ec")), markdown_of(Example("a\x1b[2Jb\u202ec"))):
        assert not {"\x1b", "\u202e"} & set(made)
        assert "⟨U+001B⟩" in made
        assert "⟨U+202E⟩" in made
    shaped = "\u0647\u200c\u0645 \u2764\ufe0f"  # a Persian word and an emoji
    assert shaped in html_of(Example(shaped))


def test_a_long_text_and_a_long_table_are_cut_and_say_so() -> None:
    assert "…" in html_of(Example("x" * (MOST_CHARACTERS + 1)))
    rows = ShownRows([{"n": number} for number in range(MOST_ROWS + 3)], "Numbers", ("n",))
    for made in (html_of(rows), markdown_of(rows)):
        assert "3 more rows are not shown" in made


def test_no_style_sets_a_colour_of_its_own_or_loads_anything() -> None:
    html = html_of(Example("x"))
    for forbidden in ("url(", "@import", "http", "color:#", "color:black", "color:white", "background:#"):
        assert forbidden not in html


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("text"))
def echo(text: str) -> ToolResult[dict[str, str]]:
    """Says the text again."""
    if text == "fail":
        raise ToolUserError("<b>no</b>")
    return ToolResult(message="private words", value={"text": text})


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_value_that_a_notebook_shows_is_escaped(attack: str) -> None:
    policy = ToolPolicy(("echo",))
    result = ToolRunner([echo], policy=policy).exec_sync("echo", {"text": attack})
    call = ToolCallView("call_1", "echo", attack, True, {"text": attack}, message=attack)
    failed = ToolCallView("call_2", attack, None, False, None, "execution", attack)
    node = {"unit": "u", "seq": 1, "kind": "event", "depth": 0, "time_ns": 5, "state": "failed", "why": attack}
    node |= {"says": attack, "arguments_json": attack}
    values: list[Any] = [
        result,
        result.record,
        ToolCatalog.compile([echo], policy),
        policy,
        call,
        Reply("done", 1, attack, (call, failed)),
        Reply("failed", 1, error_code="execution", message=attack),
        TraceTree("u", 1, None, "failed", attack, attack, [node]),
        seal_record("u/k", 0, "event", None, Stamp(10**18), {"value": attack, "bytes": b"\0"}, GENESIS),
    ]
    for value in values:
        check(value)
        assert "\x1b" not in repr(value)


def test_a_result_shows_its_public_view_and_never_the_text_for_the_model() -> None:
    runner = ToolRunner([echo], policy=ToolPolicy(("echo",)))
    done, refused = runner.exec_sync("echo", {"text": "hello"}), runner.exec_sync("echo", {"text": "fail"})
    denied = runner.exec_sync("other", {})
    assert "hello" in html_of(done)
    assert "private words" not in html_of(done) + markdown_of(done)
    assert "<b>no" not in html_of(refused)
    assert "policy_denied" in html_of(denied)
    assert "deny" in html_of(denied)


async def test_exec_sync_works_while_an_event_loop_runs() -> None:
    @tool(effect=ToolEffect.READ_ONLY)
    async def later(number: int) -> str:
        """Counts."""
        return str(number + 1)

    runner = ToolRunner([echo, later], policy=ToolPolicy(("echo", "later")))
    assert runner.exec_sync("echo", {"text": "a"}).ok
    assert runner.exec_sync("later", {"number": 1}).content == "2"
