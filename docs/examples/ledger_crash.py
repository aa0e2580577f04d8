import multiprocessing
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from demiurge import IdempotencyConfig, SqliteEffectLedger, Tool, ToolContext, ToolPolicy, ToolResult, ToolRunner


@dataclass(frozen=True)
class Invoice:
    number: str


class Bank:
    """What it did is in its own file, one line for each payment."""

    def __init__(self, folder: str, power_cut: bool) -> None:
        self.file = Path(folder, "bank")
        self.power_cut = power_cut

    def pay(self, params: Invoice, *, context: ToolContext) -> ToolResult[None]:
        with self.file.open("a") as payments:
            payments.write(f"{params.number}\n")
        if self.power_cut:
            os._exit(1)  # the bank has paid, and nobody here knows
        return ToolResult("Paid.")

    def was_it_paid(self, params: Invoice, *, context: ToolContext) -> ToolResult[None]:
        paid = params.number in self.file.read_text().split()
        return ToolResult("It had been paid.") if paid else ToolResult("It has not been paid.", success=False)


def call(folder: str, can_ask: bool, power_cut: bool = False) -> None:
    bank = Bank(folder, power_cut)
    tool = Tool[Invoice, None](
        name="pay_invoice",
        description="Pays an invoice.",
        handler=bank.pay,
        idempotency=IdempotencyConfig(),
        reconcile=bank.was_it_paid if can_ask else None,
    )
    with SqliteEffectLedger(Path(folder, "ledger.db")) as ledger:
        runner = ToolRunner([tool], policy=ToolPolicy(("pay_invoice",)), ledger=ledger)
        result = runner.exec_sync("pay_invoice", {"number": "2026-1"})
        print(result.safe_message or result.content, "| replayed:", result.record.replayed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        first = multiprocessing.get_context("spawn").Process(target=call, args=(folder, False, True))
        first.start()
        first.join()
        print("the first process ended with", first.exitcode)
        for can_ask in (False, True, True):
            call(folder, can_ask)
        print("payments:", Path(folder, "bank").read_text().split())
