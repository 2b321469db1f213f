"""Tells late tasks that their write has ended.

Spark fails a job without waiting for its Python workers, and such a worker does not notice: its input just ends. It
would leave a transaction open that nobody knows of, and readers of committed messages would wait until it times out.
So ending a write first sets a mark and then aborts the open transactions. A task that has stored its rows and
finds the mark set aborts them itself. One of the two always sees the transaction.
"""

from typing import NamedTuple

import quiver
from quiver.model.errors import TransactionNotFound


class WriteMark(NamedTuple):
    """A producer of the broker that writes nothing: the mark is set whenever its epoch grows."""

    name: str
    epoch: int | None = None
    """The epoch when the write was planned; None: there was no such producer."""


def planned_mark(client: quiver.Client, name: str) -> WriteMark:
    """The mark of a write that begins, where an earlier one may have had the same name."""
    return WriteMark(name, _epoch(client, name))


def is_set(client: quiver.Client, mark: WriteMark) -> bool:
    return _epoch(client, mark.name) != mark.epoch


def set_mark(client: quiver.Client, name: str) -> None:
    client.transactions.init(name)


def _epoch(client: quiver.Client, name: str) -> int | None:
    try:
        return client.transactions.describe(name).epoch
    except TransactionNotFound:
        return None
