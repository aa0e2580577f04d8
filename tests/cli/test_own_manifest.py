"""A manifest of one's own at the command line: the shop of the docs, its code in a module that `--tools` names."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
ORDER = "shop/Order@1"
CODE = """
import shop_order
from demiurge.world.effect import failed, succeeded

class Stock:
    kinds = ("shop.reserve",)

    def restart(self, intent, manifest):
        return "retry"

    async def perform(self, call):
        if call.intent.params["part"] == "unicorn":
            return failed("sold_out", "There are no unicorns.")
        return succeeded(price=3)

REDUCERS = {"shop/Order@1": shop_order.reduce}
ADAPTERS = [Stock()]
"""


LOOKER = """
import asyncio, sys
from demiurge import World

async def main():
    async with World.open(sys.argv[1]):
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture
def shop(tmp_path: Path, environment: Any) -> Path:
    shutil.copytree(EXAMPLES / "shop", tmp_path / "shop")
    shutil.copy(EXAMPLES / "shop_order.py", tmp_path)
    (tmp_path / "shop_code.py").write_text(CODE)
    return tmp_path / "shop"


@pytest.fixture
def made(demiurge: Any, shop: Path) -> Any:
    assert demiurge("init", "--manifest", "shop", "--tools", "shop_code").status == 0
    return demiurge


def send(demiurge: Any, schema: str, **value: Any) -> Any:
    return demiurge("--json", "event", "send", f"shop/{schema}@1", json.dumps(value))


def history(demiurge: Any, order: str) -> list[str]:
    found: list[str] = demiurge("state", "get", ORDER, "--key", order).document["history"]
    return found


def test_a_world_without_a_chat(made: Any) -> None:
    assert send(made, "Placed", order="A-1", part="bolt", count=4).status == 0
    assert send(made, "Paid", order="A-1", amount=12).status == 0
    assert history(made, "A-1")[-1] == "Told shipped"
    assert made("replay", "--check").document["ok"]
    assert made("manifest", "check").status == 0
    said = made("chat", "-m", "Hello.")
    assert said.status == 1
    assert said.err.splitlines()[-1].startswith("error: There is no module demiurge/Demiurge@1")


def test_a_plan_that_fails_is_a_failure_of_its_event(made: Any, shop: Path) -> None:
    order = json.loads((shop / "order.json").read_text())
    order[1]["steps"][2]["expr"]["args"][1] = {"op": "div", "args": [1, 0]}
    (shop / "order.json").write_text(json.dumps(order))
    assert made("manifest", "set", "shop").status == 0
    done = send(made, "Placed", order="A-1", part="bolt", count=4)
    assert done.status == 1
    assert done.document["error"]["code"]
    assert done.document["unit"] == f"{ORDER}/A-1"


def test_a_changed_manifest_is_for_new_plans(made: Any, shop: Path) -> None:
    assert send(made, "Placed", order="A-1", part="bolt", count=1).status == 0
    text = (shop / "order.json").read_text().replace('"shipped"', '"sent off"')
    (shop / "order.json").write_text(text)
    done = made("--json", "manifest", "set", "shop")
    assert (done.status, done.document["plan"]) == (0, 1)
    assert send(made, "Placed", order="A-2", part="bolt", count=1).status == 0
    for order, what in (("A-1", "Told shipped"), ("A-2", "Told sent off")):
        send(made, "Paid", order=order, amount=3)
        assert history(made, order)[-1] == what
    assert made("replay", "--check").document["ok"]


def test_code_that_may_differ_at_a_replay_is_warned_of(made: Any, shop: Path) -> None:
    assert made("--json", "manifest", "check").document["warnings"] == []
    (shop.parent / "late_order.py").write_text(
        "import time\nimport shop_order\n\ndef reduce(*given):\n    time.time()\n    return shop_order.reduce(*given)\n"
    )
    code = (shop.parent / "shop_code.py").read_text().replace("shop_order", "late_order")
    (shop.parent / "late_code.py").write_text(code)
    done = made("--json", "manifest", "set", "shop", "--tools", "late_code")
    [warning] = done.document["warnings"]
    assert (warning["module"], warning["line"], warning["name"]) == (ORDER, 5, "time.time")
    assert f"{ORDER}, line 5: time.time reads a clock" in done.err


def test_without_the_code_nothing_is_taken(made: Any, environment: Any) -> None:
    assert send(made, "Placed", order="A-1", part="bolt", count=1).status == 0
    before = made("journal", "verify").out
    assert made("init", "--forget").status == 0
    done = send(made, "Placed", order="A-2", part="bolt", count=1)
    assert (done.status, done.document["error"]["code"]) == (1, "no_code")
    assert "--tools" in done.document["error"]["message"]
    assert made("journal", "verify").out == before
    world = next(check for check in made("--json", "doctor").document["checks"] if check["name"] == "world")
    assert (world["status"], ORDER in world["detail"]) == ("warn", True)
    assert made("event", "send", "shop/Paid@1", '{"order": "A-1", "amount": 3}', "--tools", "shop_code").status == 0


@pytest.fixture
def elsewhere(made: Any, world: Path, tmp_path: Path) -> Any:
    """Commands on a copy of the shop's world, which is to them a world from somewhere else."""
    assert send(made, "Placed", order="A-1", part="bolt", count=1).status == 0
    shutil.copytree(world, tmp_path / "copy")
    assert made("-w", "copy", "init", "--tools", "shop_code").status == 0
    return lambda *arguments, **options: made("-w", "copy", *arguments, **options)


def test_a_world_from_elsewhere_is_looked_at_only(elsewhere: Any) -> None:
    done = send(elsewhere, "Paid", order="A-1", amount=3)
    assert (done.status, done.document["error"]["code"]) == (1, "not_adopted")
    assert "demiurge -w copy manifest adopt" in done.document["error"]["message"]
    event = elsewhere("--json", "journal", "tail").document["records"][0]["hash"]
    for looking in (
        ("manifest", "get"),
        ("manifest", "check"),
        ("journal", "verify"),
        ("journal", "tail"),
        ("state", "get", ORDER, "--key", "A-1"),
        ("trace", event),
        ("replay", "--check"),
        ("doctor",),
    ):
        assert elsewhere(*looking).status == 0, looking
    assert elsewhere("--json", "secrets", "ls").document["error"]["code"] == "not_adopted"
    checks = elsewhere("--json", "doctor").document["checks"]
    world = next(check for check in checks if check["name"] == "world")
    assert (world["status"], "demiurge -w copy manifest adopt" in world["mend"]) == ("warn", True)
    assert not [check for check in checks if check["name"].startswith("secret ")]


def test_a_manifest_is_taken_with_open_eyes(elsewhere: Any) -> None:
    done = elsewhere("manifest", "adopt")
    assert done.status == 2
    assert 'grant: {"cap": "shop/stock@1", "name": "stock"}' in done.out
    assert "It gives 1 grant, 1 trigger, 0 secrets; about tools it says nothing." in done.out
    assert elsewhere("--json", "manifest", "adopt").status == 2
    assert send(elsewhere, "Paid", order="A-1", amount=3).status == 1
    done = elsewhere("--json", "manifest", "adopt", "--yes")
    assert (done.status, done.document["triggers"][0]["plan"]) == (0, "shop/order@1")
    assert send(elsewhere, "Paid", order="A-1", amount=3).status == 0
    assert "already" in elsewhere("manifest", "adopt").out


def test_a_manifest_that_can_not_be_remembered_is_not_taken(elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    done = elsewhere("--json", "manifest", "adopt", "--yes")
    assert (done.status, done.document["error"]["code"]) == (1, "unavailable")


def test_setting_a_manifest_takes_it_and_a_fork_has_it(elsewhere: Any, made: Any) -> None:
    assert elsewhere("manifest", "set", "shop").status == 0
    assert elsewhere("fork", "branch").status == 0
    assert made("-w", "branch", "event", "send", "shop/Paid@1", '{"order": "A-1", "amount": 3}').status == 0


def test_a_manifest_is_adopted_and_set_while_another_process_has_the_world_open(elsewhere: Any, process: Any) -> None:
    with Popen([sys.executable, "-c", LOOKER, "copy"], stdin=PIPE, stdout=PIPE, text=True) as looker:
        assert looker.stdout is not None
        assert looker.stdout.readline() == "open\n"
        for taking in (("adopt", "--yes"), ("set", "shop", "--tools", "shop_code")):
            done = process("-w", "copy", "--json", "manifest", *taking)
            assert (done.status, done.document["ok"]) == (0, True)
            assert ("handed the world over" in done.err) == ("set" in taking)
        looker.communicate("")
    assert send(elsewhere, "Paid", order="A-1", amount=3).status == 0


def test_the_shipped_app_may_come_back(made: Any) -> None:
    assert made("manifest", "set", "--shipped").status == 0
    assert made("plan", "show", "demiurge/chat_plan@1").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("init", "--manifest", "shop"), 1, "There is a world in"),
        (("manifest", "set", "gone"), 1, "is no folder"),
        (("manifest", "set"), 2, "either DIR or --shipped"),
        (("manifest", "set", "shop", "--shipped"), 2, "either DIR or --shipped"),
        (("manifest", "set", "shop", "--tools", "gone_mod"), 1, "no Python module gone_mod"),
    ],
)
def test_an_impossible_manifest_command_is_explained_and_changes_nothing(
    made: Any, arguments: tuple[str, ...], status: int, said: str
) -> None:
    before = made("manifest", "check").out
    done = made(*arguments)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert made("manifest", "check").out == before


def test_a_manifest_without_its_code_makes_no_world(demiurge: Any, shop: Path, world: Path) -> None:
    done = demiurge("--json", "init", "--manifest", "shop")
    assert (done.status, done.document["error"]["code"]) == (1, "bad_manifest")
    assert "no code is registered" in done.document["error"]["message"]
    assert not (world / "journal.db").exists()


def test_a_world_without_chats_is_not_said_to_have_some(made: Any, demiurge: Any) -> None:
    told = made("init").out
    assert "It has no chats. Send it events: demiurge event send SCHEMA VALUE" in told
    assert "demiurge chat" not in told
    assert "shop/Order@1" in made("defs", "ls", "--kind", "module").out
    assert "Talk with it: demiurge -w other chat" in demiurge("-w", "other", "init").out


def test_changed_code_locks_no_unit(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the old code was run; where it was not, what can't be opened is named, and what to do."""
    for order in ("A-1", "A-2"):
        assert send(made, "Placed", order=order, part="unicorn", count=4).status == 0
    code = tmp_path / "shop_order.py"
    code.write_text(code.read_text().replace("{what}", "({what})"))
    for name in ("shop_order", "shop_code"):
        sys.modules.pop(name)
    before = history(made, "A-1")
    assert not any("(" in line for line in before)
    assert send(made, "Paid", order="A-1", amount=3).status == 0
    assert history(made, "A-1")[: len(before) + 1] == [*before, "Paid ()"]
    assert made("doctor").status == 0
    shutil.copytree(tmp_path / ".config", tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    [record] = (tmp_path / "elsewhere" / "demiurge/worlds").iterdir()
    record.write_text(json.dumps({**json.loads(record.read_text()), "code": []}))
    assert history(made, "A-1")[-1] == "Paid ()", "it has a snapshot"
    locked = made("--json", "event", "send", "shop/Paid@1", '{"order": "A-2", "amount": 3}')
    assert locked.document["error"]["code"] == "unchecked"
    doctor = made("--json", "doctor")
    [found] = [check for check in doctor.document["checks"] if check["name"] == "world"]
    assert (doctor.status, found["status"]) == (1, "fail")
    assert "1 of its units can't be opened" in found["detail"]
    assert "DEMIURGE_KEPT_CODE=1" in found["mend"]
    monkeypatch.setenv("DEMIURGE_KEPT_CODE", "1")
    assert send(made, "Paid", order="A-2", amount=3).status == 0
    monkeypatch.delenv("DEMIURGE_KEPT_CODE")
    assert send(made, "Paid", order="A-2", amount=3).status == 0
    assert made("doctor").status == 0
