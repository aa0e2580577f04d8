"""Why a tool failed, for its author: type, message and traceback of what its handler raised.

An exception's text may quote arguments, results and secrets. So it is written only where somebody asked for it
(`log_tool_errors=True`, `demiurge -v`), to the stderr of this process, with the secrets that are known here masked. It
does not pass through `logging`, whose records an application may send on; no event, record, span or text for the model
has any of it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from demiurge.tools.connections.credentials import Secret
from demiurge.tools.execution.secret_mask import masked
from demiurge.values.environment import process_environment

__all__ = ["MAX_REPORT", "ToolErrorLog"]

MAX_REPORT: Final = 64 * 1024
"""The longest report of one error, in characters; of a longer one the middle is left out."""

_MOST_MASKED: Final = 16 * MAX_REPORT
"""A longer text loses its middle before it is masked: what lies at that edge is then cut away with the rest."""

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
    """Writes errors of tools with `write`, by default to stderr. `secrets` gives, when an error is written, those that
    are masked beside the ones that `environment` holds under names such as `..._KEY` and `..._TOKEN`."""

    write: Callable[[str], object] = _to_stderr
    secrets: Callable[[], Iterable[Secret]] = _no_secrets
    environment: Mapping[str, str] = field(default_factory=process_environment, repr=False)

    def note(self, what: str, error: BaseException, lent: Iterable[Secret] = ()) -> None:
        """Writes why `what` failed; `lent` are more secrets. Raises nothing: an error that can't be written loses its
        text and not the call."""
        try:
            self.write(self._report(what, error, lent))
        except Exception:  # noqa: BLE001  (a closed stderr, a vault that can't be read)
            return

    def _report(self, what: str, error: BaseException, lent: Iterable[Secret]) -> str:
        told = _shortened("".join(traceback.format_exception(error)).rstrip("\n"), _MOST_MASKED)
        text = masked(told, self.environment, (*self.secrets(), *lent)).translate(_CONTROLS)
        return f"{what} raised {type(error).__name__}:\n{_shortened(text, MAX_REPORT)}"


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n... ({len(text) - most} characters are left out) ...\n{text[-(most // 2) :]}"
