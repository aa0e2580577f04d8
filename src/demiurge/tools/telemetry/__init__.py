"""What may be told about a run without telling what was said in it: counts, latencies, spans, hashes."""
