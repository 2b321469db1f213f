"""A page of transactions."""

from collections.abc import Iterable

from quiver.protocol.transaction_messages import TransactionInfo


class TransactionList(list[TransactionInfo]):
    """Some of the transactions, and how many there are."""

    def __init__(self, transactions: Iterable[TransactionInfo], total: int) -> None:
        super().__init__(transactions)
        self.total = total
