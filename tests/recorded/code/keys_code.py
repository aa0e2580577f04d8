"""The code of the recorded world with a vault."""

import shop_order  # type: ignore[import-not-found]

REDUCERS = {"keys/Service@1": shop_order.reduce}
