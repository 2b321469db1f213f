"""Numbers of transactions."""

from quiver.metrics.collector import Collection
from quiver.metrics.series import TRANSACTION_SECONDS, TRANSACTIONS, TRANSACTIONS_OPEN
from quiver.transactions.service import Transactions


class TransactionNumbers:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def collect(self, collection: Collection) -> None:
        stats = await self._transactions.stats()
        collection.values.set(TRANSACTIONS, stats.committed, "commit")
        collection.values.set(TRANSACTIONS, stats.aborted, "abort")
        collection.values.set(TRANSACTIONS_OPEN, stats.active)
        collection.values.observe(TRANSACTION_SECONDS, self._transactions.seconds)
