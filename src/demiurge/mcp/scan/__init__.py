"""Looks at the tools of MCP servers for what a person should know before trusting them (`docs/mcp-scan.md`).

Everything here is pure: definitions in, findings out. A finding advises; pins decide what a model sees. Imports
`demiurge.mcp.definition`, `registry` and `tools`.
"""

from demiurge.mcp.scan.finding import CODES, SEVERITIES, ScanFinding, Severity
from demiurge.mcp.scan.scan import ScannedTool, scan_tools

__all__ = ["CODES", "SEVERITIES", "ScanFinding", "ScannedTool", "Severity", "scan_tools"]
