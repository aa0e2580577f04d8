"""What every test may rely on."""

from __future__ import annotations

import signal

# A shell that starts the suite in the background has Ctrl-C ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
