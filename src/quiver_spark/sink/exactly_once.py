"""How rows get into a topic exactly once: every attempt of a task has a transaction, the driver commits the winners'.

The transaction of an attempt is known by a transactional id, `spark/<write>/<slot>`, where the write is a query or
one batch write. So whoever ends a write finds what other attempts of it have left open, and an attempt in the same
slot of a later micro-batch takes the producer over.
"""

import logging
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from quiver.client._sync.admin.transactions import Transactions
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client._sync.produce.producer import Producer
from quiver.client._sync.transaction.transactional import Transactional, ask
from quiver.client.produce.options import ProducerConfig
from quiver.model.errors import ConnectionLost, InvalidRequest, ProducerFenced, QuiverError, TransactionAborted
from quiver.model.limits import MIB
from quiver.model.priority import Priority
from quiver.model.transaction import MOST_PRODUCERS, ProducerKey, TransactionInfo
from quiver.protocol.messages import ProducerIdentity
from quiver.protocol.transaction_messages import InitTransactions
from quiver_spark.broker_link import broker_link
from quiver_spark.sink.columns import portions
from quiver_spark.sink.options import WriteOptions
from quiver_spark.sink.write_mark import WriteMark, is_set, planned_mark, set_mark

_logger = logging.getLogger(__name__)
_DELIVERY_SECONDS = 120.0
"""How long a frame is tried while the broker refuses it for now; at least as long as a broker is waited for."""
_BATCH_BYTES = MIB
_KEYED_BATCH_BYTES = 4 * MIB
"""These are split by partition before they become frames."""
_PAGE = 1_000
_PREFIX = "spark/"


class Attempt(NamedTuple):
    """One attempt of one task of a write."""

    write: str
    slot: str
    """Unlike that of every other attempt that may run at the same time."""
    partition: int
    batch: int = 0
    """Which micro-batch of a query."""


class Written(WriterCommitMessage):
    """What one task has written: an open transaction, or nothing."""

    def __init__(self, attempt: Attempt, producer: tuple[int, int] | None, rows: int) -> None:
        self.attempt = attempt
        self.producer = producer
        self.rows = rows


def written_of(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Of the tasks that have ended well; of the others there is no message."""
    return [message for message in messages if isinstance(message, Written)]


def check_target(options: WriteOptions) -> None:
    """TopicNotFound, ConnectionLost: nothing is written then."""
    try:
        _link(options).topic(options.topic)
    except ConnectionLost as error:
        raise _unreachable(error) from None


def mark_now(options: WriteOptions, write: str) -> WriteMark:
    """The mark of a write that is planned now."""
    return planned_mark(_link(options), f"{_PREFIX}{write}")


def mark_of(write: str) -> WriteMark:
    """The mark of a write that is the only one of its name."""
    return WriteMark(f"{_PREFIX}{write}")


def write_rows(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[str],
    options: WriteOptions,
    attempt: Attempt,
    mark: WriteMark | None = None,
) -> Written:
    """Stores the rows in a transaction that is left open for the driver; if that fails, it is aborted.

    So it is when the write has been over for the driver since before the rows were stored.
    """
    if attempt.partition >= MOST_PRODUCERS:
        raise InvalidRequest(
            problem=f"a write has at most {MOST_PRODUCERS} partitions of a DataFrame; coalesce() it before"
        )
    rest = portions(batches, columns)
    first = next(rest, None)
    if first is None:
        return Written(attempt, None, 0)
    rows = 0
    producer = _TaskProducer(options, attempt, _KEYED_BATCH_BYTES if "key" in columns else _BATCH_BYTES)
    try:
        with producer.begin() as transaction:
            for portion in chain((first,), rest):
                transaction.send_arrow(
                    options.topic, portion.rows, priority=Priority(portion.priority), partition=portion.partition
                )
                rows += portion.rows.num_rows
            transaction.flush()
            if mark is not None and is_set(producer.broker, mark):
                raise TransactionAborted(transaction=transaction.name, problem="its write was over without it")
            key = transaction.detach()
    except ConnectionLost as error:
        raise _unreachable(error) from None
    finally:
        producer.close()
    return Written(attempt, (key.producer_id, key.epoch), rows)


class Commit(NamedTuple):
    """What is committed at once."""

    written: Sequence[Written]
    write: str
    """What the names of its transactions begin with."""
    key: str
    description: str
    """What the key stands for: the same rows, when it comes again."""
    mark: WriteMark | None = None
    """With one, the write is over."""
    keeps_empty: bool = False
    """Whether the key is known from then on even if there are no rows."""


def commit_written(commit: Commit, options: WriteOptions) -> bool:
    """Makes everything that the tasks have written count at once. Returns whether this call did so.

    If a commit with the same key came before, the rows are those of then, and what was written again is aborted.
    CommitKeyConflict when they cannot be the same: then nothing of it counts.
    """
    producers = [ProducerKey(*each.producer) for each in commit.written if each.producer is not None]
    transactions = Transactions(_link(options))
    is_first = False
    if not producers and commit.keeps_empty:
        producers = [_empty_transaction(options, f"{_PREFIX}{commit.write}driver")]
    if producers:
        try:
            is_first = transactions.commit(producers, key=commit.key, description=commit.description)
        except ConnectionLost as error:
            raise _unreachable(error) from None
        except ProducerFenced as error:
            raise ProducerFenced(
                f"{error.message}; rows of this batch were aborted before it was committed: the broker was "
                "restarted, the batch took longer than transactionTimeout (up to transaction_max of the broker), or "
                "the query runs twice. Nothing of it was written: write it again, or start the query again"
            ) from None
    abort_left(options, commit.write, commit.mark)
    return is_first


def _empty_transaction(options: WriteOptions, name: str) -> ProducerKey:
    """A producer whose transaction has nothing in it: to commit a key."""
    found = ask(_link(options), InitTransactions(name))
    if not isinstance(found, ProducerIdentity):
        raise unexpected(found)
    return ProducerKey(found.producer_id, found.epoch)


def abort_left(options: WriteOptions, write: str, mark: WriteMark | None = None) -> None:
    """Aborts what attempts of a write, or of all that begin like it, have open. What was committed stays.

    Once it is committed that is what losers have written, before that it is everything. With a mark, attempts that
    come later are on their own. Raises nothing.
    """
    transactions, prefix = Transactions(_link(options)), f"{_PREFIX}{write}"
    try:
        if mark is not None:
            set_mark(_link(options), mark.name)
        left = [
            ProducerKey(found.producer_id, found.epoch)
            for found in _open(transactions)
            if found.transactional_id is not None and found.transactional_id.startswith(prefix)
        ]
        for start in range(0, len(left), MOST_PRODUCERS):
            transactions.abort_all(left[start : start + MOST_PRODUCERS])
    except ProducerFenced:
        return  # it has ended meanwhile
    except QuiverError as error:
        _logger.warning("what other attempts have written is left to its timeout: %s", error)


def _open(transactions: Transactions) -> list[TransactionInfo]:
    found: list[TransactionInfo] = []
    while True:
        page = transactions.list(limit=_PAGE, skip=len(found))
        found += page
        if len(page) < _PAGE:
            return [each for each in found if each.state == "open"]


def _link(options: WriteOptions) -> ReconnectingConnection:
    return broker_link(options.bootstrap, options.timeout_seconds)


def _unreachable(error: ConnectionLost) -> ConnectionLost:
    return ConnectionLost(f"{error.message}; is the broker running there (option bootstrap)?")


class _TaskProducer(Transactional):
    """The producer of one attempt."""

    def __init__(self, options: WriteOptions, attempt: Attempt, batch_bytes: int = _BATCH_BYTES) -> None:
        name = f"{_PREFIX}{attempt.write}/{attempt.slot}"
        super().__init__(_link(options), name, options.transaction_timeout_ms)
        self._producers[options.topic] = _RowProducer(self.broker, options, batch_bytes)


class _RowProducer(Producer):
    """Sends rows that come by the thousand, in large frames."""

    def __init__(self, link: ReconnectingConnection, options: WriteOptions, batch_bytes: int) -> None:
        seconds = max(_DELIVERY_SECONDS, options.timeout_seconds)
        sending = ProducerConfig(
            batch_bytes=batch_bytes,
            compression=options.compression,
            delivery_seconds=seconds,
            timeout_seconds=seconds,
            is_transactional=True,
        )
        Producer.__init__(self, link, options.topic, sending)
