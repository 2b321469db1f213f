"""How late tasks learn that their write is over.

Spark fails a job without waiting for its Python workers, and such a worker cannot tell: its rows just end. It would
leave a transaction open that nobody knows of, and committed readers would wait for its timeout. So whoever ends a
write sets a mark first and aborts what is open then; a task that has stored its rows and finds the mark set aborts
them itself. One of the two sees the transaction.
"""

from typing import NamedTuple

from quiver.client._sync.admin.transactions import Transactions
from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.transaction.transactional import ask
from quiver.model.errors import TransactionNotFound
from quiver.protocol.transaction_messages import InitTransactions


class WriteMark(NamedTuple):
    """A producer of the broker that writes nothing: the mark is set whenever its epoch grows."""

    name: str
    epoch: int | None = None
    """When the write was planned; None: there was no such producer."""


def planned_mark(link: ReconnectingConnection, name: str) -> WriteMark:
    """The mark of a write that begins, where an earlier one may have had the same name."""
    return WriteMark(name, _epoch(link, name))


def is_set(link: ReconnectingConnection, mark: WriteMark) -> bool:
    return _epoch(link, mark.name) != mark.epoch


def set_mark(link: ReconnectingConnection, name: str) -> None:
    ask(link, InitTransactions(name))


def _epoch(link: ReconnectingConnection, name: str) -> int | None:
    try:
        return Transactions(link).describe(name).epoch
    except TransactionNotFound:
        return None
