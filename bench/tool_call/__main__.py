"""Runs the comparison alone."""

from bench.tool_call import report

report.run()
