"""The examples of the docs run, print what the pages say, and are what the pages show."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.example_processes import Examples, started_examples
from tests.provider import Provider, serving

from demiurge.tools import SAFE_MESSAGES
from demiurge.tools.runner import STAGES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
OUTPUT = re.compile(r"<!-- output of examples/([\w.]+) -->\n```text\n(.*?)```\n", re.DOTALL)

SHOWN = {
    name: (page, output)
    for page in sorted(DOCS.rglob("*.md"))
    for name, output in OUTPUT.findall(page.read_text("utf-8"))
}


ORDER = Provider.call("order_part", {"part": "bolt", "count": 20})
QUESTION = {"question": "Which supplier is the usual one?", "choices": ["Bolt & Sons", "Nuts Ltd"]}

CALLS = {"questions.py": Provider.call("core__ask_user", QUESTION)}
"""The first call of the model, for an example that needs another one than an order."""


def script(provider: Provider, name: str) -> None:
    """A model that orders what it is asked for, or asks about it, and says so."""
    order = CALLS.get(name, ORDER)
    provider.say(Provider.answer(order), Provider.answer(Provider.text("20 bolts are on their way.")))


@pytest.fixture(scope="module")
def examples() -> Iterator[Examples]:
    with started_examples() as running:
        yield running


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_prints_what_its_page_says(name: str, tmp_path: Path, examples: Examples) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    with serving() as provider:
        script(provider, name)
        keys = {"LLM_API_KEY": "sk-example", "OPENAI_BASE_URL": provider.url}
        environment = {**os.environ, **keys, "HOME": str(tmp_path)}
        done = examples.run(tmp_path, name, environment)
    assert (done.err, done.status) == ("", 0)
    page, output = SHOWN[name]
    assert done.out == output, f"{page.name} shows something else"


def test_every_runnable_example_is_on_a_page() -> None:
    runnable = {path.name for path in EXAMPLES.glob("*.py") if "print(" in path.read_text("utf-8")}
    assert runnable == set(SHOWN)


def test_pages_are_current() -> None:
    done = subprocess.run([sys.executable, DOCS / "generate.py", "--check"], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_runners_page_has_every_stage_and_every_code() -> None:
    page = (DOCS / "runner.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \| .* \| .* \|$", page, re.MULTILINE) == [
        *("identify", *(stage.__name__ for stage, _ in STAGES), "publish", "record")
    ]
    assert dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]*) \|$", page, re.MULTILINE)) == SAFE_MESSAGES


def test_links_between_pages_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_the_readmes_own_tools_run_in_a_chat(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "own_tools.py", tmp_path)
    with serving() as provider:
        asked = Provider.call("stock_count", {"part": "bolt"})
        provider.say(Provider.answer(asked), Provider.answer(Provider.text("There are 120 bolts.")))
        keys = {"LLM_API_KEY": "sk-example", "OPENAI_BASE_URL": provider.url}
        environment = {**os.environ, **keys, "HOME": str(tmp_path)}
        command = [sys.executable, "-m", "demiurge.cli", "chat", "--tools", "own_tools", "--yes", "--message", "Bolts?"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    assert "stock_count" in done.stderr
    assert done.stdout == "There are 120 bolts.\n"
