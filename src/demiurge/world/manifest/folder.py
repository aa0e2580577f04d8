"""A manifest as files: a folder of JSON in which every part keeps its place, so that a problem can name it.

A file `*.json` holds one object or a list of objects, each with a `$kind`. `def*` objects are definitions. An object of
`$kind` `manifest` holds sections of the root: `defaults`, `routing`, `triggers`, `settings`, `tool_policy`, `toolsets`;
there may be several, so that routing and triggers can have files of their own. The order of the files has no meaning,
and other files are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from demiurge.errors import InvalidValue
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.world.manifest.problem import BadManifest, ManifestPlace, Problem

__all__ = ["EXTENDING", "LISTS", "Base", "Folder", "ManifestPart", "read_folder"]

LISTS = (("defaults", "cap_grants"), ("routing", "events"), ("triggers",), ("toolsets",))
"""Sections that are lists: the lists of several fragments are joined."""

EXTENDING = ("extends", "without")
"""Sections that say what a manifest extends, and what it leaves out of that."""

MAX_FILE = 4 << 20


class ManifestPart(NamedTuple):
    """A definition or a fragment of the root, and its place."""

    content: Any
    place: ManifestPlace


class Base(NamedTuple):
    """The manifest that another one extends: its `name`, its `policy`, and the names of its `definitions`. `before` is
    the extension's own policy, if there is one: its rules come before those of the base."""

    name: str
    before: str | None
    policy: str | None
    definitions: frozenset[str]


class Folder(NamedTuple):
    """The parts of a manifest. `problems` are those found while reading the files. `base`: the manifest that this one
    extends, of which it has the parts too (`extension.extended`)."""

    parts: tuple[ManifestPart, ...]
    problems: tuple[Problem, ...] = ()
    base: Base | None = None

    @classmethod
    def of(cls, definitions: Iterable[Mapping[str, Any]], root: Mapping[str, Any]) -> Folder:
        """Returns the parts of a manifest that comes from no file: a definition's place is its name, the root's is
        `manifest`."""
        named = [
            ManifestPart(d, ManifestPlace(str(d.get("name", f"definition {index}"))))
            for index, d in enumerate(definitions)
        ]
        return cls((*named, ManifestPart({"$kind": "manifest", **root}, ManifestPlace("manifest"))))

    @property
    def definitions(self) -> list[ManifestPart]:
        return [part for part in self.parts if part.content["$kind"] != "manifest"]

    @property
    def fragments(self) -> list[ManifestPart]:
        """The fragments of the root."""
        return [part for part in self.parts if part.content["$kind"] == "manifest"]

    def contents(self) -> list[Mapping[str, Any]]:
        """Returns the definitions, without their places. The folder must have no problems."""
        found = [part.content for part in self.definitions]
        policies = {d["name"]: d for d in found if d["$kind"] == "defpolicy"}
        if self.base is None or self.base.before is None or self.base.policy is None:
            return found
        own = policies[self.base.before]
        joined = {**own, "rules": [*own["rules"], *policies[self.base.policy]["rules"]]}
        return [joined if definition is own else definition for definition in found]

    def root(self) -> dict[str, Any]:
        """Returns all fragments joined into one. The folder must have no problems."""
        root: dict[str, Any] = {}
        for fragment in self.fragments:
            for section, value in fragment.content.items():
                if self.base is not None and section in EXTENDING:
                    continue
                joined = section in root and section not in ("$kind", "air_version")
                root[section] = _joined(root[section], value) if joined else value
        return root

    def tool_policy(self) -> ToolPolicy | None:
        """Returns the root's tool policy, or None. Raises InvalidValue."""
        policy = self.root().get("tool_policy")
        return ToolPolicy.from_json(policy) if policy is not None else None

    def toolset(self) -> tuple[ToolSpec, ...]:
        """Returns the tools of the toolsets that the root names. The folder must have no problems."""
        sets = {d.content["name"]: d.content["tools"] for d in self.definitions if d.content["$kind"] == "deftoolset"}
        return tuple(ToolSpec.from_json(spec) for name in self.root().get("toolsets", ()) for spec in sets[name])


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, list):
        return [*first, *second]
    return {
        **first,
        **{name: _joined(first[name], value) if name in first else value for name, value in second.items()},
    }


def read_folder(folder: Traversable) -> Folder:
    """Reads every JSON file of a folder (a `Path` will do), by name. Raises BadManifest if `folder` is not a folder."""
    if not folder.is_dir():
        raise BadManifest(
            [Problem(str(folder), "", "is no folder", "name one that holds the JSON files of a manifest")]
        )
    parts: list[ManifestPart] = []
    problems: list[Problem] = []
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".json") and f.is_file()), key=lambda f: f.name)
    for file in files:
        for found in _read(file):
            if isinstance(found, ManifestPart):
                parts.append(found)
            else:
                problems.append(found)
    if not files:
        problems.append(Problem(str(folder), "", "holds no JSON file", "put the definitions into files named *.json"))
    return Folder(tuple(parts), tuple(problems))


def _read(file: Traversable) -> Iterator[ManifestPart | Problem]:
    place = ManifestPlace(file.name)
    try:
        data = file.read_bytes()
        if len(data) > MAX_FILE:
            yield place.wrong(f"is larger than {MAX_FILE >> 20} MiB", "split it into several files")
            return
        content = canonical_json.parse(data.removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        yield place.wrong(f"can't be read: {type(error).__name__}", "make it a readable file")
        return
    except InvalidValue as error:
        yield place.wrong(f"is no JSON: {error.message}", "correct the text")
        return
    whole = not isinstance(content, list)
    for index, part in enumerate([content] if whole else content):
        at = place if whole else place.at(index)
        if isinstance(part, dict) and isinstance(part.get("$kind"), str):
            yield ManifestPart(part, at)
        else:
            yield at.wrong("is no object with a $kind", 'write {"$kind": "defschema", ...} or another kind')
