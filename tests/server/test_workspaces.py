"""Files of workspaces over HTTP: versions, conflicts, and the status of every refusal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.server.conftest import Served

import demiurge
from demiurge.server.errors import status_of
from demiurge.world.trees import TreeError

FILE = "/api/workspace/main/file"


async def test_a_write_with_another_expected_version_is_a_conflict(served: Served) -> None:
    user = await served.client()
    assert (await user.put(f"{FILE}?path=a.txt&expected=0", content=b"one")).json()["version"] == 1
    late = await user.put(f"{FILE}?path=a.txt&expected=0", content=b"other")
    assert (late.status_code, late.json()["code"]) == (409, "version_conflict")
    assert (await user.get(f"{FILE}?path=a.txt")).content == b"one"
    assert (await user.put(f"{FILE}?path=a.txt&expected=1", content=b"two")).json()["version"] == 2
    changes = (await user.get("/api/workspace/main/diff?old=1")).json()["changes"]
    assert [change["path"] for change in changes] == ["a.txt"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"{FILE}?path=none.txt", 404, "no_path"),
        ("GET", "/api/workspace/none/tree", 404, "no_workspace"),
        ("GET", "/api/workspace/main/tree?version=9", 404, "no_version"),
        ("DELETE", f"{FILE}?path=none.txt", 404, "not_found"),
        ("DELETE", "/api/workspace/none/file?path=a.txt", 404, "not_found"),
        ("DELETE", f"{FILE}?path=notes", 409, "not_empty"),
        ("DELETE", f"{FILE}?path=", 422, "bad_path"),
        ("PUT", f"{FILE}?path=a.txt/b.txt", 422, "bad_path"),
        ("PUT", f"{FILE}?path=../b.txt", 422, "bad_path"),
        ("PUT", "/api/workspace/a b/file?path=b.txt", 422, "invalid_workspace_name"),
    ],
)
async def test_a_refusal_has_its_status(served: Served, method: str, path: str, status: int, code: str) -> None:
    user = await served.client()
    await user.put(f"{FILE}?path=a.txt", content=b"text")
    await user.put(f"{FILE}?path=notes/b.txt", content=b"text")
    answer = await user.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_file_beyond_the_limit_is_too_large(served: Served) -> None:
    user = await served.client()
    answer = await user.put(f"{FILE}?path=a.bin", content=b"x" * (16 * 2**20 + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_no_refused_path_is_a_failure_of_the_server() -> None:
    source = Path(demiurge.__file__).parent
    texts = "".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    codes = set(re.findall(r'TreeError\((?:[^()]|\([^()]*\))*code="(\w+)"', texts)) | {TreeError.code}
    assert {"not_found", "not_empty", "bad_path"} <= codes
    assert {
        code: status_of(TreeError("x", code=code)) for code in codes if status_of(TreeError("", code=code)) >= 500
    } == {}


async def test_a_workspace_whose_first_change_was_refused_is_not_listed(served: Served) -> None:
    user = await served.client()
    await user.put("/api/workspace/main/file?path=a.txt", content=b"text")
    refused = await user.put("/api/workspace/none/file?path=a.txt&expected=7", content=b"text")
    assert refused.status_code == 409
    listed = (await user.get("/api/workspace")).json()["workspaces"]
    assert [each["workspace"] for each in listed] == ["main"]
    missing = (await user.get("/api/workspace/none/tree")).json()
    assert "there are: main." in missing["message"]
