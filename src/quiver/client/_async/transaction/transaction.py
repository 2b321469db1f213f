"""One transaction: messages, offsets and acks, atomically."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from quiver.client._async.produce.producer import AsyncProducer
from quiver.client._async.stream.stream import AsyncStream
from quiver.client._async.transaction.offsets import AsyncTransactionOffsets
from quiver.client._async.work.job import AsyncJob
from quiver.client._async.work.job_batch import AsyncJobBatch
from quiver.client.produce.batches.send_outcome import fresh
from quiver.client.produce.options import SendOptions
from quiver.client.transaction.acks import Enlisted, leased_acks
from quiver.client.transaction.state import TransactionState
from quiver.model.errors import (
    GenerationMismatch,
    InvalidRequest,
    OutOfSequence,
    ProducerFenced,
    QuiverError,
    TransactionAborted,
    UnknownProducer,
)
from quiver.protocol.transaction_messages import AbortTransaction, CommitTransaction, ProducerKey

if TYPE_CHECKING:
    from quiver.client._async.transaction.transactional import AsyncTransactional

_logger = logging.getLogger(__name__)
_GIVE_UP_SECONDS = 5.0
_GENERATIONS = 5
"""How often a commit is repeated while its group is being rebalanced."""


class AsyncTransaction:
    """Use it in a `with` block: leaving it commits; an exception aborts the transaction and propagates.

    Messages are gathered and sent as by a producer; failures are raised by `flush` or `commit`. Threads (synchronous)
    and tasks may share it while it is open.
    """

    def __init__(self, choose: "Callable[[], AsyncTransactional]") -> None:
        self._choose = choose
        self._mutex = threading.Lock()
        self._state = TransactionState.NEW
        self._transactional: AsyncTransactional
        self._key: ProducerKey
        self._producers: dict[str, AsyncProducer] = {}
        self._offsets: AsyncTransactionOffsets
        self._enlisted: list[Enlisted] = []
        self._failure: QuiverError | None = None
        self._is_known = False
        """The broker may know it."""

    async def begin(self) -> "AsyncTransaction":
        self._state.check(TransactionState.NEW)
        self._transactional = self._choose()
        self._key = await self._transactional.enter(self)
        self._offsets = AsyncTransactionOffsets(self._transactional.broker)
        self._state = TransactionState.OPEN
        return self

    @property
    def producer_key(self) -> ProducerKey:
        """Producer id and epoch, which identify the transaction."""
        return self._key

    @property
    def name(self) -> str:
        return f"{self._key.producer_id}:{self._key.epoch}"

    @property
    def state(self) -> str:
        """new, open, committed, aborted, detached; uncertain: a commit got no response."""
        return self._state.value

    @property
    def is_uncertain(self) -> bool:
        return self._state is TransactionState.UNCERTAIN

    # what is part of it

    async def publish(
        self, topic: str, value: Any, key: bytes | str | None = None, **options: Unpack[SendOptions]
    ) -> None:
        """Takes one message, to be sent with others.

        Options: headers, timestamp, partition, priority, ttl, delay or deliver_at (counted from now, however long
        the transaction takes).
        """
        producer = self._producers.get(topic) or self._producer(topic)
        await producer.send(value, key, **options)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[bytes | str | None] | None = None,
        ids: Iterable[bytes | str | None] | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Takes many messages at once, much faster than one by one; the options apply to all of them."""
        await (self._producers.get(topic) or self._producer(topic)).send_many(values, keys, ids, **options)

    async def send_arrow(self, topic: str, data: pa.Table | pa.RecordBatch, **options: Unpack[SendOptions]) -> None:
        """Takes the rows of an Arrow table: columns `value`, and optionally `key`, `timestamp`, `headers`."""
        await (self._producers.get(topic) or self._producer(topic)).send_arrow(data, **options)

    async def commit_offsets(
        self, group: AsyncStream | str, offsets: Mapping[str, Mapping[int, int]] | None = None
    ) -> None:
        """Commits offsets of a group atomically with the transaction.

        For a stream, which needs `auto_commit=False`: everything that was handed out so far, including the current
        message; a member that was removed meanwhile cannot commit.
        By name, for a group without members: a mapping of topic to partition to the next offset to read.
        """
        self._check_open()
        if isinstance(group, str):
            await self._offsets.add(group, offsets or {})
        else:
            self._offsets.add_stream(group)

    async def ack(self, job: AsyncJob | AsyncJobBatch) -> None:
        """Acks a job, or a batch of them, together with the rest. Raises LeaseLost if this consumer no longer holds
        it.

        Until the transaction has ended its lease is renewed. If it is aborted the job is open again, or given back
        if its own block was left meanwhile.
        """
        self._check_open()
        self._enlisted.append(job.enlist())

    async def flush(self) -> None:
        """Returns when every message taken so far is stored. If it raises, the transaction cannot be committed any
        more."""
        self._check_open()
        if self._failure is not None:
            raise fresh(self._failure)
        try:
            for producer in list(self._producers.values()):
                await producer.push()
            for producer in list(self._producers.values()):
                await producer.flush()
        except QuiverError as error:
            self._failure = await self._explain(error)
            raise self._failure from None

    # the end

    async def commit(self) -> None:
        """Commits; on return readers see everything. If it raises, the transaction is aborted.

        Only if there was no response in time the outcome is unknown (`state` is uncertain): call `commit` again to
        find out.
        """
        if self._state is TransactionState.COMMITTED:
            return
        self._check_fork()
        if self._state is not TransactionState.UNCERTAIN:
            try:
                await self.flush()
            except BaseException:
                await self.give_up()
                raise
        if not (self._is_known or self._offsets or self._enlisted):
            await self._ended(TransactionState.COMMITTED, self._key)
            return
        self._state, self._is_known = TransactionState.UNCERTAIN, True
        try:
            next_key = await self._commit()
        except QuiverError as error:
            if error.retryable:
                raise
            self._state = TransactionState.OPEN
            reason = await self._explain(error)
            await self.give_up()
            raise reason from None
        await self._ended(TransactionState.COMMITTED, next_key)

    async def abort(self) -> None:
        """Aborts: discards everything, and jobs that were acked here are open again. Safe to call again."""
        if self._state is TransactionState.ABORTED:
            return
        self._check_fork()
        self._state.check(TransactionState.OPEN, TransactionState.UNCERTAIN)
        await self._abort(None)

    async def give_up(self) -> None:
        """Aborts if that can be done soon; otherwise the broker does so after the timeout. Never raises.

        Does nothing in a forked child: the transaction is the parent's.
        """
        if self._state is not TransactionState.OPEN or self._transactional.broker.is_forked:
            return
        try:
            await self._abort(min(_GIVE_UP_SECONDS, self._transactional.broker.timeout))
        except QuiverError as error:
            _logger.warning("transaction %s is left to its timeout: %s", self.name, error)
            await self._ended(TransactionState.ABORTED, None)

    async def detach(self) -> ProducerKey:
        """Flushes, and returns the key with which another client can commit it: see `Client.commit_transactions`.

        The next transaction of this producer begins with a new identity. With a transactional id that aborts this
        one, if it is still open.
        """
        await self.flush()
        if self._enlisted:
            raise InvalidRequest(
                problem="a transaction with acks cannot be detached: its leases end with this client"
            )
        await self._offsets.hand_over(self._key)
        await self._ended(TransactionState.DETACHED, None)
        return self._key

    async def __aenter__(self) -> "AsyncTransaction":
        return self if self._state is TransactionState.OPEN else await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            await self.give_up()
        elif self._state is TransactionState.OPEN:
            await self.commit()

    # inside

    def _producer(self, topic: str) -> AsyncProducer:
        with self._mutex:
            self._check_open()
            found = self._producers.get(topic)
            if found is None:
                found = self._producers[topic] = self._transactional.producer(topic, self._key)
                self._is_known = True
            return found

    def _check_open(self) -> None:
        self._check_fork()
        self._state.check(TransactionState.OPEN)

    def _check_fork(self) -> None:
        if self._state is not TransactionState.NEW:
            self._transactional.broker.check_fork()

    async def _commit(self) -> ProducerKey:
        acks = leased_acks(self._enlisted)
        for left in range(_GENERATIONS - 1, -1, -1):
            request = CommitTransaction([self._key], None, self._offsets.requests(), acks)
            try:
                return await self._transactional.end(request)
            except GenerationMismatch:
                if not left:
                    raise
                await self._offsets.refresh()
        raise AssertionError

    async def _abort(self, timeout: float | None) -> None:
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            await producer.give_up(TransactionAborted(transaction=self.name, problem="its producer aborted it"))
        key = self._key
        if self._is_known:
            key = await self._transactional.end(AbortTransaction([self._key]), timeout)
        await self._ended(TransactionState.ABORTED, key)

    async def _explain(self, error: QuiverError) -> QuiverError:
        """The error to raise. The broker responds with `fenced` for a transaction that has ended, however it ended,
        and with `out_of_sequence` where it does not have what came before."""
        if isinstance(error, UnknownProducer):
            await self._ended(TransactionState.ABORTED, None)
            return TransactionAborted(transaction=self.name, problem="the broker no longer knows its producer")
        if not isinstance(error, ProducerFenced | OutOfSequence):
            return error
        try:
            await self._abort(min(_GIVE_UP_SECONDS, self._transactional.broker.timeout))
        except ProducerFenced as fenced:
            self._transactional.fenced(fenced)
            await self._ended(TransactionState.ABORTED, None)
            return fenced
        except QuiverError:
            await self._ended(TransactionState.ABORTED, None)
        problem = "it took longer than its timeout, was aborted from outside, or the broker was restarted"
        if isinstance(error, OutOfSequence):
            problem = "the broker lacks some of its messages, because it was restarted or refused them"
        return TransactionAborted(transaction=self.name, problem=problem)

    async def _ended(self, state: TransactionState, next_key: ProducerKey | None) -> None:
        producers, self._producers, self._state = self._producers, {}, state
        is_committed = state is TransactionState.COMMITTED
        if not is_committed:
            gone = TransactionAborted(transaction=self.name, problem="it is over")
            for producer in producers.values():
                await producer.give_up(gone)
        else:
            self._offsets.committed()
        enlisted, self._enlisted = self._enlisted, []
        for each in enlisted:
            with contextlib.suppress(QuiverError):
                each.on_end(is_committed)
        await self._transactional.leave(self, next_key)
