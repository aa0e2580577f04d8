"""The code of the recorded shop: its reducer, and the adapter that performs its effect."""

from typing import Any

import shop_order  # type: ignore[import-not-found]

from demiurge.world.effect import failed, succeeded


class Stock:
    kinds = ("shop.reserve",)

    def restart(self, intent: Any, manifest: Any) -> Any:
        return "retry"

    async def perform(self, call: Any) -> Any:
        if call.intent.params["part"] == "unicorn":
            return failed("sold_out", "There are no unicorns.")
        return succeeded(price=3)


REDUCERS = {"shop/Order@1": shop_order.reduce}
ADAPTERS = [Stock()]
