"""The lint of reducers (architecture.md 3): it warns of clocks, chance and the world outside, and of nothing else."""

from __future__ import annotations

from textwrap import dedent

import pytest

from demiurge.apps.demiurge import app
from demiurge.world.manifest.lint import replay_risks
from demiurge.world.workspace import workspace_reducer


def names(source: str) -> list[str]:
    return [doubt.name for doubt in replay_risks(dedent(source).encode())]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\nnow = time.time()", "time.time"),
        ("from time import time_ns as clock\nnow = clock()", "time.time_ns"),
        ("import datetime as dt\nnow = dt.datetime.now()", "datetime.datetime.now"),
        ("from datetime import date\nnow = date.today()", "datetime.date.today"),
        ("import random\nx = random.Random(1)", "random.Random"),
        ("from uuid import uuid4\nx = uuid4()", "uuid.uuid4"),
        ("import os\nx = os.environ['HOME']", "os.environ"),
        ("from pathlib import Path\nx = Path('f').read_text()", "pathlib.Path"),
        ("import urllib.request\nurllib.request.urlopen('u')", "urllib.request.urlopen"),
        ("x = open('f')", "open"),
        ("x = sorted({}, key=id)", "id"),
        ("n = 0\ndef f():\n    global n\n    n += 1", "global n"),
        ("import asyncio\nasyncio.run(None)", "asyncio.run"),
    ],
)
def test_the_lint_names_calls_that_may_differ_in_a_replay(source: str, found: str) -> None:
    assert names(source) == [found]


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime, timedelta\nx = datetime.fromtimestamp(0, None) + timedelta(1)",
        "import uuid\nx = uuid.UUID(int=1)",
        "def reduce(state, event, context):\n    open = event['open']\n    return open['time']",
        "x.time.time()\nself.random()",
        "import os.path\nx = os.path.join('a', 'b')",
        "def id(x):\n    return x\ny = id(1)",
        "import time",
        "from . import time\nfrom .clocks import random\nx = time.now(random)",
        "match event:\n    case {'id': id, **open}:\n        x = id, open\n    case [hash, *input] as exec:\n"
        "        x = hash, input, exec",
        "try:\n    pass\nexcept ValueError as input:\n    x = input",
        "this is no Python",
    ],
)
def test_the_lint_does_not_name_calls_that_are_equal_in_every_replay(source: str) -> None:
    assert names(source) == []


def test_the_line_and_the_remedy_are_told() -> None:
    [doubt] = replay_risks(b"import time\n\n\ndef reduce(state, event, context):\n    return time.time()\n")
    assert doubt.line == 5
    assert "context.stamp" in doubt.why


def test_the_shipped_reducers_are_clean() -> None:
    for reducer in (*app().reducers.values(), workspace_reducer()):
        assert replay_risks(reducer.source) == ()


@pytest.mark.parametrize(
    "source",
    [
        b"x = " + b"-" * 100_000 + b"1",
        b"x = " + b"lambda: " * 20_000 + b"1",
        b"x = 1" + b"+1" * 50_000,
        b"x = a" + b"()" * 50_000,
        b"x = a" + b".b" * 20_000,
        b"x = " + b"(" * 5_000,
        b"if a: pass\n" + b"elif a: pass\n" * 20_000,
        b"x = 1\0",
        b"\xff\xfe\xff",
        b"# coding: rot13\nvzcbeg gvzr",
        b"# coding: no-such-codec\nx = 1",
    ],
    ids=[
        "nested signs",
        "nested lambdas",
        "nested sums",
        "nested calls",
        "nested attributes",
        "open brackets",
        "nested elifs",
        "nul byte",
        "utf-16",
        "rot13",
        "unknown codec",
    ],
)
def test_odd_source_is_passed_over(source: bytes) -> None:
    assert replay_risks(source) == ()
