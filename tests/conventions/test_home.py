"""Where the tests of this suite note things is their own, also when one of them says nothing of it."""

from __future__ import annotations

import os

import pytest

from demiurge import World
from demiurge.bootstrap.secrets import config_folder, vault_places
from demiurge.bootstrap.trust.world_profile import recall
from demiurge.models.local.weights import cache_folder


async def test_a_world_that_a_test_opens_writes_nothing_to_the_users_home(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ours = tmp_path_factory.getbasetemp()
    config, places = config_folder(os.environ), vault_places(os.environ)
    assert config is not None
    assert places is not None
    assert config.is_relative_to(ours)
    assert places.vault.is_relative_to(ours)
    folder = tmp_path_factory.mktemp("here") / "w"
    async with World.open(folder) as world:
        await world.submit("demiurge/ChatCreated@1", {"chat_id": "main", "title": "Mine", "created_at_ms": 1})
    assert recall(os.environ, folder) is not None


def test_the_local_model_is_still_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert not cache_folder().is_relative_to(tmp_path_factory.getbasetemp())
