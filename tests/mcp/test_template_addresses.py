"""Addresses that a pinned template makes, and those that lead elsewhere."""

from __future__ import annotations

import pytest

from demiurge.mcp.requests import fits_template


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("file:///docs/{+path}", "file:///docs/a/b.txt"),
        ("file://{+path}", "file:///a"),
        ("web:{+url}", "web:https://shop.example/a"),
        ("note://{name}", "note://one"),
        ("x:/a{/path*}", "x:/a/b/c"),
    ],
)
def test_an_address_of_the_template_fits(template: str, uri: str) -> None:
    assert fits_template(template, uri)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("file:///docs/{+path}", "file:///docs//etc/passwd"),
        ("file:///docs/{+path}", "file:///docs/%2Fetc/passwd"),
        ("file:///docs/{+path}", "file:///docs/a/../../etc/passwd"),
        ("file:///docs/{+path}", "file:///docs/a/%2e%2E/b"),
        ("file:///docs/{+path}", "file:///docs/%252e%252e/b"),
        ("file:///docs/{+path}", "file:///docs/..%5Cb"),
        ("note://{name}", "note://a/b"),
        ("note://{name}", "note://a%2Fb"),
        ("note://{name}", "note://a?b=1"),
        ("note://{name}", "note://."),
        ("note://{name}", "note://a\u200b"),
        ("note://{name}", "note://a%0Ab"),
    ],
)
def test_an_address_that_leads_elsewhere_fits_no_template(template: str, uri: str) -> None:
    assert not fits_template(template, uri)
