"""Shows the author of a tool why it failed: type, message and traceback of what its handler raised.

The text of an exception may quote arguments, results and secrets. So it is written only on request
(`log_tool_errors=True`, `demiurge -v`), to the stderr of this process, with all known secrets masked. It does not
pass through `logging`, whose records an application may send elsewhere; no event, record, span or text for the model
holds any of it. A traceback begins with the author's own code, unless all of it is asked for.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from demiurge.tools.connections.credentials import Secret
from demiurge.tools.execution.cause import INSTALLED, STANDARD_LIBRARY
from demiurge.tools.execution.secret_mask import masked
from demiurge.values.environment import process_environment

__all__ = ["MAX_REPORT", "ToolErrorLog"]

MAX_REPORT: Final = 64 * 1024
"""The maximum length of the report of one error, in characters; the middle of a longer report is left out."""

_MAX_MASKED: Final = 16 * MAX_REPORT
"""A text longer than this, in characters, loses its middle before it is masked, so that masking stays fast. The
second cut, to `MAX_REPORT`, then removes the edges of the first, where a secret may have been split."""

_OWN: Final = f"{Path(__file__).parents[2]}/"
"""The beginning of the file names of Demiurge."""

_CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"
}
_CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}")


def _no_secrets() -> Iterable[Secret]:
    return ()


def _to_stderr(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class ToolErrorLog:
    """Writes errors of tools with `write`, by default to stderr. `secrets` is called for each error; it returns
    secrets to mask in addition to those that `environment` holds under names such as `..._KEY` and `..._TOKEN`.
    `whole`: tracebacks show the frames of Demiurge that called the tool, too."""

    write: Callable[[str], object] = _to_stderr
    secrets: Callable[[], Iterable[Secret]] = _no_secrets
    environment: Mapping[str, str] = field(default_factory=process_environment, repr=False)
    whole: bool = False

    def note(self, what: str, error: BaseException, lent: Iterable[Secret] = ()) -> None:
        """Writes why `what` failed, with the secrets `lent` masked too. Raises nothing: if the error cannot be
        written, its text is lost and the call goes on."""
        try:
            self.write(self._report(what, error, lent))
        except Exception:  # noqa: BLE001  (a closed stderr, a connection store that can't be read)
            return

    def _report(self, what: str, error: BaseException, lent: Iterable[Secret]) -> str:
        report = traceback.TracebackException.from_exception(error, compact=True)
        if not self.whole:
            _cut_framework(report)
        trace = _shortened("".join(report.format()).rstrip("\n"), _MAX_MASKED)
        text = masked(trace, self.environment, (*self.secrets(), *lent)).translate(_CONTROLS)
        return f"{what} raised {type(error).__name__}:\n{_shortened(text, MAX_REPORT)}"


def _cut_framework(report: traceback.TracebackException) -> None:
    """Removes the frames before the author's own from a report and from the reports of its causes; a report without a
    frame of the author stays whole."""
    causes = [*(report.exceptions or ()), report.__cause__, report.__context__]
    for cause in filter(None, causes):
        _cut_framework(cause)
    own = next((at for at, frame in enumerate(report.stack) if not _is_framework(frame.filename)), 0)
    report.stack[:own] = []


def _is_framework(file: str) -> bool:
    return file.startswith(_OWN) or (file.startswith(STANDARD_LIBRARY) and INSTALLED not in file)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n... ({len(text) - limit} characters are left out) ...\n{text[-(limit // 2) :]}"
