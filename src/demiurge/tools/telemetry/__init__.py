"""Telemetry of a run that reveals nothing of its content: counts, latencies, spans, hashes."""
