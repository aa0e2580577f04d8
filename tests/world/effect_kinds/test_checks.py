"""What each cap type covers: empty is nothing, absent is anything, and no spelling gets around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.effects.effect_asker import asking_manifest, grant_name
from tests.world.small_world import START_NS, chat_manifest

from demiurge.capabilities.http.rules import MAX_HEADER_BYTES, MAX_HEADERS
from demiurge.values.caller import Caller
from demiurge.world.authority.admission import Admission, admit
from demiurge.world.effect_kinds.blob import BLOB, INLINE_BYTES
from demiurge.world.effect_kinds.http import HTTP
from demiurge.world.effect_kinds.llm import MODELS
from demiurge.world.manifest import Grant, Manifest

GET = {"method": "GET", "url": "https://api.example/v1/items?q=1"}
TIMER = {"deliver_at_ns": 1}
DIFF = {"workspace": "main", "version_a": 0, "path": "docs"}


def admit_effect(cap: str, kind: str, params: Mapping[str, Any], **grant: Any) -> Admission:
    manifest = asking_manifest({cap: grant})
    effect = manifest.effects[kind]
    checked = manifest.schemas.validator(effect.params).normalise(params)
    origin = {"kind": "plan", "name": f"ex/ask.{kind}@1", "id": 1}
    return admit(manifest, effect, checked, grant_name(cap), origin, now_ns=START_NS, caller=Caller("user"))


def http_denial_code(params: Mapping[str, Any], **grant: Any) -> str:
    return admit_effect("http.out", "http.request", {**GET, **params}, **grant).code


def literal_header(text: str) -> dict[str, str]:
    return {"$tag": "literal", "$value": text}


@pytest.mark.parametrize(
    ("grant", "params", "code"),
    [
        ({}, {}, ""),
        ({"hosts": ["api.example"]}, {}, ""),
        ({"hosts": ["API.Example."]}, {}, ""),
        ({"hosts": []}, {}, "host_not_allowed"),
        ({"hosts": ["example"]}, {}, "host_not_allowed"),
        ({"hosts": [".example", "*.example", "pi.example"]}, {}, "host_not_allowed"),
        ({"hosts": ["api.example"]}, {"url": "https://api.example.evil.example/"}, "host_not_allowed"),
        ({"hosts": ["api.example"]}, {"url": "https://evil-api.example/"}, "host_not_allowed"),
        ({"hosts": ["api.example"]}, {"url": "https://sub.api.example/"}, "host_not_allowed"),
        ({"hosts": ["api.example"]}, {"url": "https://api.example@evil.example/"}, "invalid_url"),
        ({"hosts": ["api.example"]}, {"url": "https://evil.example#@api.example/"}, "host_not_allowed"),
        ({"hosts": ["api.example"]}, {"url": "https://evil.example?api.example"}, "host_not_allowed"),
        ({"hosts": ["bücher.example"]}, {"url": "https://xn--bcher-kva.example/"}, ""),
        ({"hosts": ["xn--bcher-kva.example"]}, {"url": "https://BÜCHER.example/"}, ""),
        ({"hosts": ["api.example"]}, {"url": "https://\u0430pi.example/"}, "host_not_allowed"),
        ({"hosts": ["::1"]}, {"url": "https://[0::1]/"}, ""),
        ({"hosts": ["[::1]"]}, {"url": "https://[0::1]/"}, ""),
        ({"hosts": ["X::1"]}, {"url": "https://[::1]/"}, "host_not_allowed"),
        ({"hosts": ["not a host", ""]}, {}, "host_not_allowed"),
        ({"methods": ["get"]}, {}, ""),
        ({"methods": ["POST"]}, {}, "method_not_allowed"),
        ({"methods": []}, {}, "method_not_allowed"),
        ({}, {"method": "TRACE"}, "method_not_allowed"),
        ({}, {"method": "CONNECT"}, "method_not_allowed"),
        ({}, {"method": "GET / HTTP/1.1\r\nX:"}, "method_not_allowed"),
        ({"schemes": ["HTTPS"]}, {}, ""),
        ({"schemes": ["https"]}, {"url": "http://api.example/"}, "scheme_not_allowed"),
        ({"schemes": []}, {}, "scheme_not_allowed"),
        ({}, {"url": "file:///etc/passwd"}, "invalid_url"),
        ({"ports": [443]}, {}, ""),
        ({"ports": [443]}, {"url": "https://api.example:8443/"}, "port_not_allowed"),
        ({"ports": []}, {}, "port_not_allowed"),
        ({"path_prefixes": ["/v1"]}, {}, ""),
        ({"path_prefixes": ["/v1/items"]}, {}, ""),
        ({"path_prefixes": ["/"]}, {}, ""),
        ({"path_prefixes": ["/v"]}, {}, "path_not_allowed"),
        ({"path_prefixes": []}, {}, "path_not_allowed"),
        ({"path_prefixes": ["/v1"]}, {"url": "https://api.example/v1/../admin"}, "path_not_allowed"),
        ({"path_prefixes": ["/v1"]}, {"url": "https://api.example/v1/%2e%2e/admin"}, "path_not_allowed"),
        ({"path_prefixes": ["/v1"]}, {"url": "https://api.example/v1/..%2fadmin"}, "path_not_allowed"),
        ({"path_prefixes": ["/v1"]}, {"url": "https://api.example/v1x"}, "path_not_allowed"),
        ({"max_redirects": 0}, {"max_redirects": 1}, "redirects_exceeded"),
        ({"max_redirects": 1}, {"max_redirects": 1}, ""),
        ({"internal_networks": ["10.0.0.0/8", "::1"]}, {}, ""),
        ({"internal_networks": ["10.0.0.1/8"]}, {}, "cap_params_invalid"),
        ({"internal_networks": ["everything"]}, {}, "cap_params_invalid"),
    ],
)
def test_the_line_of_a_request(grant: Mapping[str, Any], params: Mapping[str, Any], code: str) -> None:
    assert http_denial_code(params, **grant) == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Accept": literal_header("text/html, */*;q=0.1")}, ""),
        ({"X-Empty": literal_header("")}, ""),
        ({"Host": literal_header("evil.example")}, "header_not_allowed"),
        ({"content-length": literal_header("3")}, "header_not_allowed"),
        ({"Transfer-Encoding": literal_header("chunked")}, "header_not_allowed"),
        ({"a": literal_header("x"), "A": literal_header("y")}, "header_not_allowed"),
        ({"a b": literal_header("x")}, "header_not_allowed"),
        ({"a": literal_header("x\r\nHost: evil")}, "header_not_allowed"),
        ({"a": literal_header(" x")}, "header_not_allowed"),
        ({"a": literal_header("\u00e9")}, "header_not_allowed"),
        ({"a": literal_header("x" * 9000)}, "header_not_allowed"),
        ({f"x{n}": literal_header("") for n in range(65)}, "header_not_allowed"),
        ({"AUTHORIZATION": literal_header("x")}, "literal_secret"),
        ({"x-goog-api-key": literal_header("x")}, "literal_secret"),
        ({"x-access-token": literal_header("x")}, "literal_secret"),
        ({"client_secret": literal_header("x")}, "literal_secret"),
        ({"Idempotency-Key": literal_header("x")}, ""),
    ],
)
def test_the_headers_of_a_request(headers: Mapping[str, Any], code: str) -> None:
    assert http_denial_code({"headers": headers}) == code


@pytest.mark.parametrize(
    ("secrets", "code"),
    [
        (["web/robot@2"], ""),
        (["web/robot@*"], ""),
        (["web/robot@1"], "secret_not_allowed"),
        (["web/robo@*", "web/*", "*", "*@*", "web/robot"], "secret_not_allowed"),
    ],
)
def test_a_grant_names_secrets_by_version_or_in_every_version(secrets: list[str], code: str) -> None:
    named = {"$tag": "secret", "$value": {"alias": "web/robot", "version": 2}}
    assert http_denial_code({"headers": {"x": named}}, secrets=secrets) == code


LABELS = st.text("ab-.", max_size=8)


@given(LABELS, LABELS)
def test_only_the_very_host_is_granted(before: str, after: str) -> None:
    code = http_denial_code({"url": f"https://{before}api.example{after}/"}, hosts=["api.example"])
    assert (code == "") == (before == "" and after in ("", "."))


@pytest.mark.parametrize(
    ("cap", "kind", "params", "grant", "code"),
    [
        ("blob", "blob.get", {"blob_ref": "x"}, {}, ""),
        ("blob", "blob.get", {"blob_ref": "x"}, {"ops": ["get"]}, ""),
        ("blob", "blob.get", {"blob_ref": "x"}, {"ops": ["put"]}, "op_not_allowed"),
        ("blob", "blob.put", {"content": {"$tag": "bytes", "$value": "aGVsbG8="}}, {"max_bytes": 5}, ""),
        ("blob", "blob.put", {"content": {"$tag": "bytes", "$value": "aGVsbG8="}}, {"max_bytes": 4}, "too_large"),
        ("timer", "timer.set", TIMER, {}, ""),
        ("vault", "vault.rotate", {"alias": "a"}, {"aliases": ["a"]}, ""),
        ("vault", "vault.rotate", {"alias": "a"}, {}, "alias_not_allowed"),
        ("vault", "vault.put", {"alias": "a", "value_ref": "x"}, {"aliases": []}, "alias_not_allowed"),
        ("vault", "vault.put", {"alias": "A", "value_ref": "x"}, {"aliases": ["a"]}, "alias_not_allowed"),
        ("workspace", "workspace.diff", DIFF, {"ops": ["diff"]}, ""),
        ("workspace", "workspace.diff", DIFF, {"ops": ["read"]}, "op_not_allowed"),
        ("workspace", "workspace.diff", DIFF, {"path_prefixes": ["docs"]}, ""),
        ("workspace", "workspace.diff", DIFF, {"path_prefixes": ["doc"]}, "path_not_allowed"),
        ("workspace", "workspace.diff", DIFF, {"workspaces": ["other"]}, "workspace_not_allowed"),
        ("query", "introspect.list_cells", {"module": "ex/Room@1"}, {"modules": []}, "module_not_allowed"),
        ("query", "introspect.journal_head", {"module": "ex/Room@1"}, {"modules": []}, "module_not_allowed"),
        ("query", "introspect.journal_head", {}, {"modules": []}, ""),
    ],
)
def test_other_caps(cap: str, kind: str, params: Mapping[str, Any], grant: Mapping[str, Any], code: str) -> None:
    assert admit_effect(cap, kind, params, **grant).code == code


@pytest.mark.parametrize(
    ("op", "kinds"),
    [
        ("read", ["read_bytes", "read_ref", "annotations_get"]),
        ("write", ["write_bytes", "remove", "annotations_set", "commit"]),
        ("resolve", ["resolve"]),
        ("list", ["list"]),
        ("diff", ["diff"]),
    ],
)
def test_every_workspace_effect_belongs_to_one_op(op: str, kinds: list[str]) -> None:
    manifest = asking_manifest({"workspace": {"ops": [op]}})
    workspace = [kind for kind in manifest.effects if kind.startswith("workspace.")]
    params = {"workspace": "main", "path": "x"}
    origin = {"kind": "plan", "name": "p", "id": 1}
    admitted = [
        kind
        for kind in workspace
        if admit(manifest, manifest.effects[kind], params, "workspace", origin, now_ns=0, caller=Caller("u")).verdict
        == "allow"
    ]
    assert sorted(admitted) == sorted(f"workspace.{kind}" for kind in kinds)


@pytest.mark.parametrize(
    ("tool", "method", "code"),
    [
        ("workspace__read", "GET", "policy_denied"),
        ("workspace__read", "head", "policy_denied"),
        ("workspace__read", "POST", "effect_level"),
        ("workspace__read", "delete", "effect_level"),
        ("workspace__write", "POST", "policy_denied"),
    ],
)
def test_a_tool_that_only_reads_can_not_send_a_change(tool: str, method: str, code: str) -> None:
    manifest = replace(chat_manifest(), grants={"web": Grant("web", "http.out", {}, None)})
    denied = by_tool(manifest, tool, method, "web")
    assert denied.code == code
    assert (denied.rule == "grant web") is (code == "effect_level")


def test_the_shipped_app_grants_no_way_out() -> None:
    manifest = chat_manifest()
    assert by_tool(manifest, "workspace__write", "GET", "").code == "no_grant"
    assert {grant.cap_type for grant in manifest.grants.values()}.isdisjoint({"http.out", "blob", "timer"})


def by_tool(manifest: Manifest, tool: str, method: str, grant: str) -> Admission:
    effect = manifest.effects["http.request"]
    origin = {"kind": "tool", "name": tool, "parent": b"p", "ordinal": 0}
    params = {**GET, "method": method, "headers": None, "max_redirects": None}
    return admit(manifest, effect, params, grant, origin, now_ns=START_NS, caller=Caller("user"))


def llm_denial_code(params: Mapping[str, Any], **grant: Any) -> str | None:
    found = (check(grant, "llm.generate", params) for check in MODELS.checks)
    return next((code for code in found if code), None)


ASK = {"provider": "p", "model": "m", "max_tokens": 5}


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, None),
        ({"$tag": "secret", "$value": {"alias": "llm/api", "version": 1}}, None),
        ({"$tag": "literal", "$value": "sk"}, "literal_secret"),
    ],
)
def test_a_key_is_never_written_out(key: Any, code: str | None) -> None:
    assert llm_denial_code({**ASK, "api_key": key}) == code
    assert llm_denial_code(ASK) is None


@pytest.mark.parametrize(("size", "code"), [(0, ""), (INLINE_BYTES, ""), (INLINE_BYTES + 1, "too_large")])
def test_a_blob_goes_inline_up_to_the_limit(size: int, code: str) -> None:
    content = {"$tag": "bytes", "$value": b"x" * size}
    _, check = BLOB.checks
    assert (check({}, "blob.put", {"content": content}) or "") == code
    for limit, within in ((size, True), (size - 1, False)):
        told = check({"max_bytes": limit}, "blob.put", {"content": content}) or ""
        assert told == (code if within else "too_large")


def test_a_blob_by_its_ref_has_no_size_here() -> None:
    _, check = BLOB.checks
    for content in ({"$tag": "ref", "$value": "sha256:" + "0" * 64}, None):
        assert check({"max_bytes": 0}, "blob.get", {"content": content}) is None


def test_the_number_and_the_length_of_headers_are_limited() -> None:
    _, check = HTTP.checks
    for count, code in ((MAX_HEADERS, None), (MAX_HEADERS + 1, "header_not_allowed")):
        assert check({}, "http.request", {"headers": {f"x-{n}": literal_header("v") for n in range(count)}}) == code
    for length, code in ((MAX_HEADER_BYTES, None), (MAX_HEADER_BYTES + 1, "header_not_allowed")):
        assert check({}, "http.request", {"headers": {"x-a": literal_header("v" * length)}}) == code
    for length, code in ((256, None), (257, "header_not_allowed")):
        assert check({}, "http.request", {"headers": {"x" * length: literal_header("v")}}) == code


def test_the_redirects_that_are_not_named_are_none() -> None:
    assert http_denial_code({}, max_redirects=0) == ""
    for asked, code in ((2, ""), (3, "redirects_exceeded")):
        assert http_denial_code({"max_redirects": asked}, max_redirects=2) == code
