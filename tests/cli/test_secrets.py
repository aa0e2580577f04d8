"""`demiurge secrets`: values go in and never come out; doctor says what is missing."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

CANARY = "canary-0123456789abcdef"
EXAMPLES = Path(__file__).parents[2] / "docs/examples"


@pytest.fixture
def keyless(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user who has no key in the environment."""
    for name in ("LLM_API_KEY", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "DEMIURGE_VAULT", "DEMIURGE_VAULT_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Path(environment["HOME"])


def checks(done: Any) -> dict[str, Any]:
    return {check["name"]: check for check in done.document["checks"]}


def test_a_value_goes_in_by_stdin_and_is_used(keyless: Path, demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Yes.")))
    listed = demiurge("secrets", "ls", "--json")
    [row, other] = listed.document["secrets"]
    assert (other["alias"], other["state"]) == ("llm/anthropic", "missing")
    assert row["state"] == "missing"
    assert row["bindings"] == {"env:LLM_API_KEY": "absent", "env:OPENAI_API_KEY": "absent", "vault:llm/api": "absent"}
    assert "demiurge secrets set llm/api" in row["mend"]
    done = demiurge("secrets", "set", "llm/api", "--json", stdin=f"{CANARY}\n".encode())
    assert done.status == 0, done
    assert done.document["key"] == str(keyless / ".config/demiurge/vault.key")
    assert stat.S_IMODE((keyless / ".config/demiurge/vault.key").stat().st_mode) == 0o600
    assert demiurge("chat", "--titles", "off", "-m", "Hello?").status == 0
    assert provider.keys == [f"Bearer {CANARY}"]
    listed = demiurge("secrets", "ls", "--json")
    [row, _] = listed.document["secrets"]
    assert row["state"] == "found"
    [receipt] = [
        json.loads(line)["body"]
        for line in demiurge("journal", "export").out.splitlines()
        if json.loads(line)["kind"] == "receipt"
    ]
    assert receipt["secrets"] == [{"alias": "llm/api", "version": 1, "digest": row["digest"]}]
    assert ", with llm/api@1 #" in demiurge("trace", "--chat", "main").out
    assert "receipt with llm/api@1" in demiurge("trace", "--chat", "main", "--all").out
    shown = demiurge("secrets", "ls")
    assert "vault:llm/api" in shown.out
    assert CANARY not in shown.out + shown.err + listed.out + done.out + done.err


def test_a_value_is_removed_again(keyless: Path, demiurge: Any) -> None:
    for version in ("1", "2"):
        assert demiurge("secrets", "set", "llm/api", "--version", version, stdin=CANARY.encode()).status == 0
    assert demiurge("secrets", "rm", "llm/api").status == 0
    again = demiurge("secrets", "rm", "llm/api", "--json")
    assert (again.status, again.document["error"]["code"]) == (1, "not_found")
    states = {(r["alias"], r["version"]): r["state"] for r in demiurge("secrets", "ls", "--json").document["secrets"]}
    assert states == {("llm/anthropic", 1): "missing", ("llm/api", 1): "missing", ("llm/api", 2): "unused"}


def test_a_value_that_nothing_uses_is_kept_with_a_warning(keyless: Path, demiurge: Any) -> None:
    done = demiurge("secrets", "set", "lmm/api", stdin=CANARY.encode())
    assert done.status == 0
    assert "nothing uses it" in done.err


@pytest.mark.parametrize(
    ("stdin", "said"),
    [(b"", "no value"), (b"\n", "no value"), (b" \n", "no value"), (b"\xff\xfe", "UTF-8"), (b"x" * 20_000, "16384")],
)
def test_an_unusable_value_is_refused_and_nothing_is_made(
    keyless: Path, demiurge: Any, stdin: bytes, said: str
) -> None:
    done = demiurge("secrets", "set", "llm/api", stdin=stdin)
    assert done.status == 1
    assert said in done.err
    assert not (keyless / ".local").exists()
    assert not (keyless / ".config").exists()


@pytest.mark.parametrize("alias", ["", "a b", "a@1", "ä", "a\n", "x" * 129])
def test_a_malformed_name_is_refused(keyless: Path, demiurge: Any, alias: str) -> None:
    assert demiurge("secrets", "set", alias, stdin=CANARY.encode()).status == 2


def test_a_sealed_value_is_stored_and_opens_for_nobody_else(keyless: Path, demiurge: Any, world: Path) -> None:
    shown = demiurge("secrets", "seal", "web/robot", stdin=f"{CANARY}\n".encode())
    assert shown.status == 0, shown
    told = demiurge("secrets", "seal", "web/robot", "--json", stdin=CANARY.encode()).document
    assert (told["alias"], len(bytes.fromhex(told["digest"]))) == ("web/robot", 8)
    assert told["value_ref"] != shown.out.strip()
    for ref in (told["value_ref"], shown.out.strip()):
        assert demiurge("blob", "get", ref, "--raw").out.startswith("demiurge-sealed-1\n")
    assert demiurge("secrets", "ls", "--json").document["secrets"][-1]["state"] != "unused", "the vault has nothing yet"
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in keyless.rglob("*") if path.is_file())


def test_a_value_that_cannot_be_sealed_is_an_error(
    keyless: Path, demiurge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demiurge("secrets", "seal", "web/robot", stdin=b"").status == 1
    assert demiurge("secrets", "seal", "a b", stdin=CANARY.encode()).status == 2
    monkeypatch.delenv("HOME")
    refused = demiurge("secrets", "seal", "web/robot", "--json", stdin=CANARY.encode())
    assert (refused.status, refused.document["error"]["code"]) == (1, "unavailable")


def test_every_version_of_a_secret_is_listed(keyless: Path, demiurge: Any, world: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "keys", tmp_path / "keys")
    shutil.copy(EXAMPLES / "shop_order.py", tmp_path)
    (tmp_path / "keys_code.py").write_text("import shop_order\nREDUCERS = {'keys/Service@1': shop_order.reduce}\n")
    assert demiurge("init", "--manifest", "keys", "--tools", "keys_code").status == 0
    [row] = demiurge("secrets", "ls", "--json").document["secrets"]
    assert (row["version"], row["state"]) == (None, "missing")
    assert "run `demiurge secrets set web/robot`" in row["mend"]
    assert "web/robot@*" in demiurge("secrets", "ls").out
    assert checks(demiurge("doctor", "--json"))["secret web/robot@*"]["status"] == "warn"
    for version in ("1", "3"):
        done = demiurge("secrets", "set", "web/robot", "--version", version, stdin=CANARY.encode())
        assert "nothing uses it" not in done.err
    rows = demiurge("secrets", "ls", "--json").document["secrets"]
    assert [(row["version"], row["state"]) for row in rows] == [(1, "found"), (3, "found")]
    assert checks(demiurge("doctor", "--json"))["secret web/robot@3"]["status"] == "ok"
    (keyless / ".local/share/demiurge/vault.json").chmod(0o644)
    [row] = demiurge("doctor", "--json").document["checks"][-1:]
    assert (row["name"], row["status"]) == ("secret web/robot@*", "fail")


def test_a_value_is_no_argument(keyless: Path, demiurge: Any) -> None:
    assert demiurge("secrets", "set", "llm/api", CANARY, stdin=b"").status == 2


def test_looking_makes_nothing(keyless: Path, demiurge: Any, world: Path) -> None:
    for words in (("secrets", "ls"), ("secrets", "rm", "x"), ("doctor",)):
        demiurge(*words)
    assert not world.exists()
    assert not (keyless / ".local").exists()
    assert not (keyless / ".config").exists()


def test_doctor_says_where_the_vault_is_and_what_is_wrong_with_it(keyless: Path, demiurge: Any) -> None:
    done = checks(demiurge("doctor", "--json"))
    assert done["vault"]["status"] == "ok"
    assert str(keyless / ".local/share/demiurge/vault.json") in done["vault"]["detail"]
    assert "secret llm/api@1" not in done, "the local model needs no key"
    demiurge("secrets", "set", "llm/api", stdin=CANARY.encode())
    done = checks(demiurge("doctor", "--json"))
    assert done["key for openai"]["detail"] == "llm/api is in the secret vault"
    assert done["secret llm/api@1"]["detail"] == "found at vault:llm/api"
    key = keyless / ".config/demiurge/vault.key"
    key.chmod(0o644)
    broken = demiurge("doctor", "--json")
    assert broken.status == 1
    assert {name for name, check in checks(broken).items() if check["status"] == "fail"} >= {
        "vault",
        "secret llm/api@1",
    }
    assert "chmod 600" in checks(broken)["vault"]["mend"]
    key.unlink()
    broken = demiurge("doctor", "--json")
    assert "DEMIURGE_VAULT_KEY" in checks(broken)["vault"]["mend"]
    assert CANARY not in broken.out + broken.err


def test_a_vault_that_can_not_be_opened_fails_the_turn_with_what_to_do(keyless: Path, demiurge: Any) -> None:
    demiurge("secrets", "set", "llm/api", stdin=CANARY.encode())
    (keyless / ".config/demiurge/vault.key").chmod(0o644)
    done = demiurge("chat", "-m", "Hello?", "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == "secret_unavailable"
    assert "chmod 600" in done.document["error"]["message"]
