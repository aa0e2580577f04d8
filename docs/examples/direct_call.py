from demiurge import ToolContext, ToolValidationError, tool


class Prices:
    """A table of prices in cents."""

    def __init__(self, cents: dict[str, int]) -> None:
        self.cents = cents


@tool
def price_of(part: str, pieces: int = 1, *, context: ToolContext) -> int:
    """Looks up what a number of pieces costs, in cents."""
    prices = context.resources.get(Prices)
    assert prices is not None
    return pieces * prices.cents[part]


table = {Prices: Prices({"bolt": 30})}
print(price_of.run_direct(part="bolt", pieces=4, context=table).value)

for arguments in ({"part": "bolt", "pieces": "4"}, {"part": "bolt", "count": 4}):
    try:
        price_of.run_direct(arguments, context=table)
    except ToolValidationError as error:
        print(error)

try:
    price_of.run_direct(part="nut", context=table)
except KeyError as error:
    print("KeyError", error)
