"""What every test may rely on."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell that starts the suite in the background has Ctrl-C ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts on time: neither how long an example takes nor how long it takes to make one.
settings.register_profile("demiurge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("demiurge")
