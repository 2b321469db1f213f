# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""A producer of consecutive transactions: its identity, a producer per topic, and how transactions end."""

import threading
from collections.abc import Iterable

from quiver.client._backend_sync import Lock, sleep
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client._sync.produce.producer import Producer
from quiver.client._sync.transaction.transaction import Transaction
from quiver.client.produce.batches.in_flight import NO_IDENTITY
from quiver.client.produce.batches.send_outcome import fresh
from quiver.client.produce.options import ProducerConfig, transaction_config
from quiver.model.errors import Closed, InvalidRequest, ProducerFenced, QuiverError, TransactionConflict
from quiver.model.names import check_name
from quiver.protocol.messages import Message, ProducerIdentity
from quiver.protocol.transaction_messages import (
    AbortTransaction,
    CommitTransaction,
    InitTransactions,
    ProducerKey,
    TransactionEnded,
)

_PRODUCERS_KEPT = 64
_IDLE_SECONDS = 3600.0
"""A producer without a transactional id that was idle for longer is dropped; the broker forgets it."""


class Transactional:
    """Begins transactions, each when the one before has ended; the first one gets its identity from the broker.

    With a transactional id there is one such producer at a time: another one that initialises the id fences this one.
    Then `begin` raises ProducerFenced until `init` takes the id back.
    """

    def __init__(
        self,
        broker: ReconnectingConnection,
        transactional_id: str | None,
        timeout_ms: int,
        sending: ProducerConfig | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.sending = sending or transaction_config(timeout_ms)
        """How messages are sent; applies to topics that are used for the first time."""
        self.is_closed = False
        self.broker = broker
        self._is_reserved = False
        self._beginning = Lock()
        self._mutex = threading.Lock()
        self._key: ProducerKey | None = None
        """The identity of the next transaction; None: it is fetched from the broker."""
        self._used_at = 0.0
        self._has_new_timeout = False
        self._current: Transaction | None = None
        self._fenced_by: ProducerFenced | None = None
        self._producers: dict[str, Producer] = {}

    def init(self) -> "Transactional":
        """Takes over the transactional id: what it has open elsewhere is aborted, and its producer there is
        fenced."""
        self.broker.check_fork()
        with self._beginning:
            self._check_free()
            self._fenced_by = None
            self._init()
        return self

    def set_timeout(self, timeout_ms: int) -> None:
        """Changes the timeout; `init` sends it to the broker before the next transaction begins."""
        if timeout_ms != self.timeout_ms:
            self.timeout_ms = timeout_ms
            self.sending = transaction_config(timeout_ms)
            self._has_new_timeout = True

    def begin(self) -> "Transaction":
        """Begins a transaction. Raises TransactionConflict while another one of this object is open."""
        return Transaction(lambda: self).begin()

    def commit(self) -> None:
        """Commits the open transaction."""
        self._open_transaction().commit()

    def abort(self) -> None:
        """Aborts the open transaction."""
        self._open_transaction().abort()

    def close(self) -> None:
        """Aborts what is open, if the broker can be reached immediately, and closes."""
        if self.is_closed or self.broker.is_forked:
            self.is_closed = True
            return
        current = self._current
        if current is not None:
            current.give_up()
        self.is_closed = True
        for producer in self._producers.values():
            _end(producer)

    # for the pool: those without an id are used by one transaction after the other

    @property
    def is_reserved(self) -> bool:
        """In use by a transaction that has not ended."""
        return self._is_reserved

    def reserve(self) -> None:
        self._is_reserved = True

    # for the transaction

    def enter(self, transaction: Transaction) -> ProducerKey:
        """The identity that the transaction's messages are sent with."""
        self.broker.check_fork()
        try:
            return self._enter(transaction)
        except BaseException:
            self._is_reserved = False
            raise

    def _enter(self, transaction: Transaction) -> ProducerKey:
        with self._beginning:
            self._check_free()
            if self._fenced_by is not None:
                raise fresh(self._fenced_by)
            now = self.broker.clock.monotonic()
            if self.transactional_id is None and now - self._used_at > _IDLE_SECONDS:
                self._key = None
            if self._key is None or self._has_new_timeout:
                self._init()
            assert self._key is not None
            self._used_at, self._current = now, transaction
            return self._key

    def producer(self, topic: str, key: ProducerKey) -> Producer:
        """The producer for a topic, at the beginning of its part of a transaction."""
        with self._mutex:
            producer = self._producers.pop(topic, None)
            if producer is None:
                producer = Producer(self.broker, check_name(topic), self.sending)
            self._producers[topic] = producer
            producer.begin_transaction((key.producer_id, key.epoch))
            return producer

    def end(self, request: CommitTransaction | AbortTransaction, timeout: float | None = None) -> ProducerKey:
        """Asks for the end of a transaction until there is a response; returns the identity of the next one."""
        answer = ask(self.broker, request, timeout)
        if not isinstance(answer, TransactionEnded) or len(answer.producers) != len(request.producers):
            raise unexpected(answer)
        return answer.producers[0]

    def leave(self, transaction: Transaction, key: ProducerKey | None) -> None:
        """The transaction has ended. Without a key its outcome is unknown, or it was detached."""
        if self._current is not transaction:
            return
        self._key, self._current = key, None
        kept = 0 if key is None and self.transactional_id is None else _PRODUCERS_KEPT
        for topic in list(self._producers)[: max(0, len(self._producers) - kept)]:
            _end(self._producers.pop(topic))
        self._is_reserved = False

    def fenced(self, error: ProducerFenced) -> None:
        """Another instance has taken over the transactional id."""
        self._fenced_by = error

    # inside

    def _init(self) -> None:
        self._key = None
        answer = ask(self.broker, InitTransactions(self.transactional_id, self.timeout_ms))
        if not isinstance(answer, ProducerIdentity):
            raise unexpected(answer)
        self._key, self._has_new_timeout = ProducerKey(answer.producer_id, answer.epoch), False

    def _check_free(self) -> None:
        if self.is_closed:
            raise Closed(what="the producer of transactions")
        if self._current is not None and not self._current.is_uncertain:
            problem = "it is open; use one transactional id per thread or task"
            raise TransactionConflict(transaction=self._current.name, problem=problem)
        if self._current is not None:
            self._current = self._key = None

    def _open_transaction(self) -> Transaction:
        if self._current is None:
            raise InvalidRequest(problem="there is no open transaction: call begin first")
        return self._current


def _end(producer: Producer) -> None:
    """Closes a producer between two transactions."""
    producer.give_up(Closed(what="the client"))
    producer.begin_transaction(NO_IDENTITY)
    producer.close()


def ask(broker: ReconnectingConnection, request: Message, timeout: float | None = None) -> object:
    """The response; retries until the timeout. All requests about transactions can be repeated safely."""
    deadline = broker.clock.monotonic() + (broker.timeout if timeout is None else timeout)
    backoff = broker.new_backoff()
    while True:
        try:
            return (broker.call(request, timeout=max(0.001, deadline - broker.clock.monotonic()))).answer
        except QuiverError as error:
            wait = backoff.next_seconds()
            if not error.retryable or broker.clock.monotonic() + wait >= deadline:
                raise
        sleep(wait)


def producer_keys(keys: Iterable[ProducerKey | tuple[int, int]]) -> list[ProducerKey]:
    """Keys as users pass them: from `producer_key`, or pairs of producer id and epoch."""
    return [key if isinstance(key, ProducerKey) else ProducerKey(*key) for key in keys]
