import base64

from demiurge import Redaction, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.tools import File, Image

DOT = base64.b64decode(  # one pixel, as a PNG
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.message_only(parts=True))
def plot_sales(year: int) -> ToolResult[None]:
    """Plot the sales of a year."""
    table = File(data=b"month,sales\n1,20\n", mime="text/csv", name=f"sales-{year}.csv")
    return ToolResult(f"The sales of {year}.", parts=[Image(data=DOT, name="sales.png"), table])


runner = ToolRunner([plot_sales], policy=ToolPolicy(("plot_sales",)))
result = runner.exec_sync("plot_sales", {"year": 2026})
print(result.content)
for part in result.value["parts"]:
    print(part["kind"], part["mime"], part["size"], part["name"], part["bytes_ref"][:14])
print([part.data[:5] for part in result.parts])
