"""The addresses that a pinned template allows."""

from __future__ import annotations

import pytest

from demiurge.mcp.requests import fits_template


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("note://by-id/{id}", "note://by-id/7"),
        ("note://by-id/{id}", "note://by-id/a%20b"),
        ("note://by-id/{id}", "note://by-id/a:b@c"),
        ("note://by-id/{id}", "note://by-id/1.0..2.0"),
        ("file:///docs/{+path}", "file:///docs/a/b.txt"),
        ("file:///docs{/path*}", "file:///docs/a/b"),
        ("log://{service}{?since,level}", "log://api"),
        ("log://{service}{?since,level}", "log://api?since=5m"),
        ("a://{x}/{y}/data", "a://1/2/data"),
    ],
)
def test_an_address_of_the_template_fits(template: str, uri: str) -> None:
    assert fits_template(template, uri)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("note://by-id/{id}", "note://other/7"),
        ("note://by-id/{id}", "note://by-id/7/8"),
        ("note://by-id/{id}", "note://by-id/7?x=1"),
        ("note://by-id/{id}", "note://by-id/7#x"),
        ("note://by-id/{id}", "note://by-id/.."),
        ("note://by-id/{id}", "note://by-id/."),
        ("note://by-id/{id}", "note://by-id/%2e%2e"),
        ("note://by-id/{id}", "note://by-id/..%2fetc"),
        ("note://by-id/{id}", "note://by-id/a%2Fb"),
        ("note://by-id/{id}", "note://by-id/%252e%252e"),
        ("note://by-id/{id}", "note://by-id/a%5Cb"),
        ("note://by-id/{id}", "note://by-id/a\\b"),
        ("note://by-id/{id}", "note://by-id/a%00b"),
        ("note://by-id/{id}", "note://by-id/a%0Ab"),
        ("note://by-id/{id}", "note://by-id/a b"),
        ("note://by-id/{id}", "note://by-id/a\u202eb"),
        ("note://by-id/{id}", "note://by-id/%E2%80%AE"),
        ("note://by-id/{id}", "NOTE://by-id/7"),
        ("note://by-id/{id}", f"note://by-id/{'x' * 2048}"),
        ("file:///docs/{+path}", "file:///docs/../etc/passwd"),
        ("file:///docs/{+path}", "file:///docs/a/../../etc"),
        ("file:///docs/{+path}", "file:///docs/a/%2e%2e/b"),
        ("file:///docs/{+path}", "file:///docs/a?x=1"),
        ("file:///docs{/path*}", "file:///docs/a/../b"),
        ("file:///docs{/path*}", "file:///docs/a%2Fb"),
        ("log://{service}{?since}", "log://api?until=5m"),
        ("log://{service}{?since}", "log://api?since=5m&until=6m"),
        ("note://{id", "note://1"),
        ("", "note://1"),
    ],
)
def test_any_other_address_does_not(template: str, uri: str) -> None:
    assert not fits_template(template, uri)
