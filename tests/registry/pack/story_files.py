"""A small story that tests of core tools read: an outline, scenes, and canon cards."""

from __future__ import annotations

from typing import Final

STORY: Final = {
    "Story/SCN-outline.md": (
        "# Story Outline\n"
        "\n"
        "## Scene 1: The Gate (POV: Mara)\n"
        "Mara must open the gate. She studied the closet.\n"
        "\n"
        "## Scene 2: Low Tide\n"
        "POV: Tobin Vale\n"
        "- Tobin waits\n"
        "- He may lose the boat\n"
        "\n"
        "## Scene 3: Ash\n"
        "The soldier sleeps. Nothing moves. A bell rings.\n"
    ),
    "Story/SCN-scene-1-mara.md": (
        "# The Gate\n"
        "\n"
        "Mara waited. Tobin Vale came at dusk, but he said nothing.\n"
        '"Must you go?" Mara asked.\n'
        "\n"
        "***\n"
        "\n"
        "She would lose him... The next morning she left the gate!\n"
    ),
    "Story/SCN-low-tide.md": (
        "# Low Tide\n\nThe tide was low. On Monday Tobin saw Mara again.\nThe soldier studied the map.\n"
    ),
    "Compendium/characters/CHAR-annabel.md": "# Annabel\nA cook.\n",
    "Compendium/characters/CHAR-mara.md": "# Mara\nMara is a ferrywoman.\n",
    "Compendium/characters/CHAR-tobin.md": "# Tobin\nTobin fears water.\n",
}
