"""Writes rows exactly once: every attempt of a task has a transaction, and the driver commits those that won.

The transaction of an attempt is known by a transactional id, `spark/<write>/<slot>`, where the write is a query or
one batch write. So the end of a write can find the transactions that other attempts have left open, and an attempt in
the same slot of a later micro-batch takes over the producer.
"""

import logging
from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

import quiver
from quiver.client import ProducerKey, Transactional
from quiver.model.errors import ConnectionLost, InvalidRequest, ProducerFenced, QuiverError, TransactionAborted
from quiver.model.limits import MIB, TRANSACTION_PRODUCERS
from quiver.model.priority import Priority
from quiver_spark.broker_client import broker_client, unreachable
from quiver_spark.sink.options import WriteOptions
from quiver_spark.sink.rewrite import RowPlaces, StoredRows, copy_rows
from quiver_spark.sink.row_groups import row_groups
from quiver_spark.sink.write_mark import WriteMark, is_set, planned_mark, set_mark
from quiver_spark.source.options import ReadOptions

_logger = logging.getLogger(__name__)
_DELIVERY_SECONDS = 120.0
"""How long a frame is retried; at least as long as the client waits for a broker that does not respond."""
_BATCH_BYTES = MIB
_KEYED_BATCH_BYTES = 4 * MIB
"""Larger, because rows with keys are split by partition before they become frames."""
_PAGE = 1_000
_PREFIX = "spark/"
_REWRITES = 3
"""How often the rows of a batch are written again: the broker may be restarted more than once."""
_REWRITE_SLOT = "again"


class Attempt(NamedTuple):
    """One attempt of one task of a write."""

    write: str
    slot: str
    """Different from that of every other attempt that may run at the same time."""
    partition: int
    batch: int = 0
    """Which micro-batch of a query."""


class Written(WriterCommitMessage):
    """What one task has written: an open transaction, or nothing."""

    def __init__(
        self,
        attempt: Attempt,
        producer: tuple[int, int] | None,
        rows: int,
        places: tuple[StoredRows, ...] = (),
    ) -> None:
        self.attempt = attempt
        self.producer = producer
        self.rows = rows
        self.places = places


def written_of(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """What the successful tasks have written; the others have no message."""
    return [message for message in messages if isinstance(message, Written)]


def check_target(options: WriteOptions) -> None:
    """Raises TopicNotFound or ConnectionLost before anything is written. Topics that rows name are found later."""
    try:
        topics = _client(options).topics
        if options.topic is None:
            topics.list()
        else:
            topics.describe(options.topic)
    except ConnectionLost as error:
        raise unreachable(error) from None


def mark_now(options: WriteOptions, write: str) -> WriteMark:
    """The mark of a write that is being planned."""
    return planned_mark(_client(options), f"{_PREFIX}{write}")


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
    """Stores the rows in a transaction that is left open for the driver; aborts it if that fails.

    It is also aborted when the driver ended the write before the rows were stored: nobody would commit them.
    """
    if attempt.partition >= TRANSACTION_PRODUCERS:
        raise InvalidRequest(
            problem=f"a write has at most {TRANSACTION_PRODUCERS} partitions of a DataFrame: coalesce() it first"
        )
    rest = row_groups(batches, columns)
    first = next(rest, None)
    if first is None:
        return Written(attempt, None, 0)
    rows, places = 0, RowPlaces(_client(options))
    producer = _task_producer(options, attempt, _KEYED_BATCH_BYTES if "key" in columns else _BATCH_BYTES)
    try:
        with producer.begin() as transaction:
            for group in chain((first,), rest):
                priority, partition, named = group.place
                topic = options.topic or named
                assert topic is not None, "the columns were checked"
                places.begin(topic)
                transaction.send_arrow(topic, group.rows, priority=Priority(priority), partition=partition)
                rows += group.rows.num_rows
            transaction.flush()
            if mark is not None and is_set(_client(options), mark):
                raise TransactionAborted(transaction=transaction.name, problem="its write ended without it")
            stored = places.end()
            key = transaction.detach()
    except ConnectionLost as error:
        raise unreachable(error) from None
    finally:
        producer.close()
    return Written(attempt, (key.producer_id, key.epoch), rows, stored)


class Commit(NamedTuple):
    """What is committed together."""

    written: Sequence[Written]
    write: str
    """What the names of its transactions begin with."""
    key: str
    description: str
    """What the key stands for: a commit with the same key must have the same rows."""
    mark: WriteMark | None = None
    """If given, the commit ends the write."""
    keeps_empty: bool = False
    """Whether the key is known from then on even if there are no rows."""


def commit_written(commit: Commit, options: WriteOptions) -> bool:
    """Commits everything that the tasks have written, atomically. Returns whether this call did so.

    If the key was committed before, the rows of that commit stay, and what was written again is aborted. If the
    transactions of the tasks are aborted by then, because the broker was restarted, their rows are written again.
    Raises CommitKeyConflict if the rows cannot be the same: then nothing is committed.
    """
    producers = [ProducerKey(*each.producer) for each in commit.written if each.producer is not None]
    client = _client(options)
    is_first = False
    if not producers and commit.keeps_empty:
        # An empty transaction, so that the key is remembered.
        producers = [client.transactions.init(f"{_PREFIX}{commit.write}driver")]
    if producers:
        try:
            is_first = _commit_or_rewrite(commit, producers, options)
        except ConnectionLost as error:
            raise unreachable(error) from None
        except ProducerFenced as error:
            raise ProducerFenced(
                f"{error.message}; rows of this batch were aborted before it was committed: the broker was "
                "restarted, the batch took longer than transactionTimeout (up to transaction_max of the broker), or "
                "the query runs twice. Nothing of it was written: write it again, or start the query again"
            ) from None
    abort_left(options, commit.write, commit.mark)
    return is_first


def _commit_or_rewrite(commit: Commit, producers: list[ProducerKey], options: WriteOptions) -> bool:
    """Commits these producers; when one of them is fenced, what the tasks have written is written again instead."""
    client, fenced = _client(options), None
    for _ in range(1 + _REWRITES):
        try:
            if fenced is not None:
                producers = [_rewritten(commit, options)]
            return client.commit_transactions(producers, key=commit.key, description=commit.description)
        except (ProducerFenced, TransactionAborted) as error:
            fenced = fenced or error
    assert fenced is not None
    raise ProducerFenced(fenced.message)


def _rewritten(commit: Commit, options: WriteOptions) -> ProducerKey:
    """The rows of all tasks in one transaction that is left open. Raises ProducerFenced if some of them are gone."""
    reading = ReadOptions(
        bootstrap=options.bootstrap, committed=False, fail_on_data_loss=False, timeout_seconds=options.timeout_seconds
    )
    attempt = Attempt(commit.write.rstrip("/"), _REWRITE_SLOT, 0)
    producer = _task_producer(options, attempt, _KEYED_BATCH_BYTES)
    try:
        with producer.begin() as transaction:
            for each in commit.written:
                found = 0 if each.producer is None else copy_rows(each.places, each.producer, reading, transaction)
                if found != each.rows:
                    raise ProducerFenced(
                        f"{each.rows - found} of the {each.rows} rows of a task are gone with its transaction"
                    )
            transaction.flush()
            _logger.warning("the broker aborted what the tasks had written, and their rows were written again")
            return transaction.detach()
    finally:
        producer.close()


def abort_left(options: WriteOptions, write: str, mark: WriteMark | None = None) -> None:
    """Aborts the open transactions of a write, or of all writes with this prefix. What was committed stays.

    After a commit these are the transactions of attempts that lost, before it they are all. With a mark, attempts
    that are still running find out by themselves and abort. Raises nothing.
    """
    client, prefix = _client(options), f"{_PREFIX}{write}"
    try:
        if mark is not None:
            set_mark(client, mark.name)
        left = _open_transactions(client, prefix)
        for start in range(0, len(left), TRANSACTION_PRODUCERS):
            client.abort_transactions(left[start : start + TRANSACTION_PRODUCERS])
    except ProducerFenced:
        return  # another process has ended the transaction
    except QuiverError as error:
        _logger.warning("the transactions of other attempts stay open until they time out: %s", error)


def _open_transactions(client: quiver.Client, prefix: str) -> list[ProducerKey]:
    """The producers whose transactional id begins with a prefix and whose transaction is open."""
    found: list[ProducerKey] = []
    for skip in count(0, _PAGE):
        page = client.transactions.list(limit=_PAGE, skip=skip)
        for each in page:
            name = each.transactional_id
            if each.state == "open" and name is not None and name.startswith(prefix):
                found.append(ProducerKey(each.producer_id, each.epoch))
        if len(page) < _PAGE:
            break
    return found


def _client(options: WriteOptions) -> quiver.Client:
    return broker_client(options.bootstrap, options.timeout_seconds)


def _task_producer(options: WriteOptions, attempt: Attempt, batch_bytes: int) -> Transactional:
    """The producer of one attempt. Rows come in large batches and go out in large frames."""
    return _client(options).transactional(
        f"{_PREFIX}{attempt.write}/{attempt.slot}",
        timeout=options.transaction_timeout_ms / 1000,
        batch_bytes=batch_bytes,
        compression=options.compression,
        delivery_timeout=max(_DELIVERY_SECONDS, options.timeout_seconds),
    )
