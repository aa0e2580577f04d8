"""The difference between a whole manifest and a base, as an extension of the base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from demiurge.world.manifest.extension import REPLACEABLE
from demiurge.world.manifest.folder import Folder

__all__ = ["Difference", "difference"]

Part = Mapping[str, Any]

OWN_POLICY = "own/policy@1"
"""The name of the policy in an extension if the whole manifest changed the base's policy under the base's name."""


class Difference(NamedTuple):
    """The `parts` of an extension, and a sentence for each difference that they do not express (`notes`)."""

    parts: list[Part]
    notes: list[str]


def difference(folder: Folder, name: str, base: Folder) -> Difference:
    """Returns what a whole manifest has beside the base of this name. What the manifest lacks is a note, because a copy
    of an earlier base lacks what is new in the base. Neither folder may have problems."""
    found = Difference([], [])
    theirs = {(part["$kind"], part["name"]): part for part in base.contents()}
    ours = {(part["$kind"], part["name"]): part for part in folder.contents()}
    for key, part in ours.items():
        if key[0] == "defpolicy" or theirs.get(key) == part:
            continue
        if key not in theirs or key[0] in REPLACEABLE:
            found.parts.append(part)
        else:
            found.notes.append(f"{key[1]} differs from that of {name}, which stays: give yours a name of its own.")
    found.notes.extend(
        f"The extension also has {key[1]} of {name}." for key in theirs if key not in ours and key[0] != "defpolicy"
    )
    root, base_root = folder.root(), base.root()
    defaults: dict[str, Any] = dict(_policy(root, base_root, ours, theirs, name, found))
    if grants := _list_difference(root, base_root, ("defaults", "cap_grants"), ("name",), name, found):
        defaults["cap_grants"] = grants
    extension: dict[str, Any] = {"$kind": "manifest", "extends": name}
    extension |= {"defaults": defaults} if defaults else {}
    if routes := _list_difference(root, base_root, ("routing", "events"), ("event",), name, found):
        extension["routing"] = {"events": routes}
    if triggers := _list_difference(root, base_root, ("triggers",), ("event", "plan"), name, found):
        extension["triggers"] = triggers
    settings, usual = root.get("settings", {}), base_root.get("settings", {})
    if changed := {key: value for key, value in settings.items() if key not in usual or usual[key] != value}:
        extension["settings"] = changed
    found.notes.extend(f"The extension also has the setting {key} of {name}." for key in usual if key not in settings)
    extension |= {section: root[section] for section in ("tool_policy", "toolsets") if section in root}
    found.parts.append(extension)
    return found


def _policy(
    root: Part,
    base_root: Part,
    ours: Mapping[tuple[str, str], Part],
    theirs: Mapping[tuple[str, str], Part],
    name: str,
    found: Difference,
) -> Iterator[tuple[str, str]]:
    """Adds the policy with the rules that the base's policy lacks. Yields the entry of `defaults` that names it."""
    own, usual = root.get("defaults", {}).get("policy"), base_root["defaults"]["policy"]
    rules: Sequence[Part] = ours["defpolicy", own]["rules"] if own is not None else ()
    known = theirs["defpolicy", usual]["rules"]
    found.notes.extend(f"The rule {rule} of {name} also holds." for rule in known if rule not in rules)
    if added := [rule for rule in rules if rule not in known]:
        named = own if own is not None and ("defpolicy", own) not in theirs else OWN_POLICY
        found.parts.append({"$kind": "defpolicy", "name": named, "rules": added})
        yield "policy", named


def _list_difference(
    root: Part, base_root: Part, path: tuple[str, ...], keys: tuple[str, ...], name: str, found: Difference
) -> list[Part]:
    """Returns the entries of a list that the base lacks or has otherwise."""
    ours, theirs = _entries(root, path, keys), _entries(base_root, path, keys)
    what = path[-1]
    found.notes.extend(
        f"The extension also has {' '.join(key)} among the {what} of {name}." for key in theirs if key not in ours
    )
    if what != "cap_grants":
        found.notes.extend(
            f"{' '.join(key)} among the {what} differs from that of {name}, which stays."
            for key, entry in ours.items()
            if key in theirs and theirs[key] != entry
        )
        return [entry for key, entry in ours.items() if key not in theirs]
    return [entry for key, entry in ours.items() if theirs.get(key) != entry]


def _entries(root: Part, path: tuple[str, ...], keys: tuple[str, ...]) -> dict[tuple[str, ...], Part]:
    found: Any = root
    for step in path:
        found = found.get(step, {})
    return {tuple(str(entry[key]) for key in keys): entry for entry in found or ()}
