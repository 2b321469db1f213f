# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The client: what `quiver.connect` and `quiver.open` return."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

from quiver.client._backend_sync import Lock
from quiver.client._sync.admin.dead_letters import DeadLetters
from quiver.client._sync.admin.delayed import Delayed
from quiver.client._sync.admin.groups import Groups
from quiver.client._sync.admin.queues import Queues
from quiver.client._sync.admin.schedules import Schedules
from quiver.client._sync.admin.topics import Topics
from quiver.client._sync.admin.traces import Traces
from quiver.client._sync.admin.transactions import Transactions
from quiver.client._sync.connection.environment import REAL_ENVIRONMENT, Environment
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, Target
from quiver.client._sync.produce.producer import Producer
from quiver.client._sync.read.frames import Frames
from quiver.client._sync.read.offsets import offsets_at
from quiver.client._sync.read.reader import Reader
from quiver.client._sync.search.search import Search
from quiver.client._sync.stream.stream import Stream
from quiver.client._sync.transaction.pool import TransactionPool
from quiver.client._sync.transaction.transaction import Transaction
from quiver.client._sync.transaction.transactional import Transactional
from quiver.client._sync.work.work import Work
from quiver.client._sync.work.worker_pool import WorkerPool
from quiver.client.connection.address import http_url
from quiver.client.produce.options import (
    TRANSACTION_BATCH_BYTES,
    SendOptions,
    producer_config,
    publisher_config,
    transaction_config,
)
from quiver.client.produce.published import Published
from quiver.client.produce.tracing import new_tracing
from quiver.client.read.isolation import READ_COMMITTED, is_committed
from quiver.client.read.options import ReadOptions, reader_config
from quiver.client.search.options import SearchOptions, search_request
from quiver.client.stream.options import StreamOptions, stream_config
from quiver.client.work.options import WorkOptions
from quiver.client.work.worker_counters import WorkerCounters
from quiver.client.work.worker_definition import Handler, WorkerDefinition
from quiver.model.errors import QuiverError
from quiver.model.limits import MIB
from quiver.model.names import check_name
from quiver.model.numbers import Size
from quiver.model.position import parse_position
from quiver.model.times import Duration, parse_duration_ms, parse_seconds, wait_seconds
from quiver.protocol.transaction_messages import ProducerKey

_Handler = TypeVar("_Handler", bound=Handler)
_PUBLISHERS_KEPT = 1000
_LAST_SECONDS = 1.0
"""How long a client that is closed because of an error waits for messages in flight."""
_VERDICT_SECONDS = 2.0
"""A message that has timed out fails, and its future raises why, within this time."""


class Client:
    """A broker to publish to and read from. Safe to share between threads (synchronous) or tasks (asynchronous)."""

    def __init__(
        self,
        target: Target,
        *,
        timeout: Duration = 30,
        client_id: str = "quiver-python",
        tracing: float = 0.0,
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        def connection() -> ReconnectingConnection:
            seconds = parse_seconds(timeout)
            return ReconnectingConnection(target, timeout=seconds, client_id=client_id, environment=environment)

        self._connection, self._fetch_connection = connection(), connection()
        self._connection.tracing = new_tracing(tracing, environment.randomness)
        self._publishers: dict[tuple[str, str], Producer] = {}
        """By topic and acks."""
        self._publishing = Lock()
        self._producers: list[Producer] = []
        self._streams: list[Stream] = []
        self._is_closed = False
        self._has_failed = False
        """The `with` block ended with an error: current messages were not processed."""
        self._workers = WorkerPool(connection)
        self.topics = Topics(self._connection)
        self.groups = Groups(self._connection)
        self.queues = Queues(self._connection)
        self.dead_letters = DeadLetters(self._connection)
        self.delayed = Delayed(self._connection)
        self.schedules = Schedules(self._connection)
        self.transactions = Transactions(self._connection)
        self.traces = Traces(self._connection)
        self.frames = Frames(self._fetch_connection)
        self._transactionals = TransactionPool(self._connection)

    @property
    def address(self) -> str:
        """The addresses of the broker."""
        return self._connection.address

    def http_url(self) -> str | None:
        """The broker's HTTP interface, such as http://localhost:7480; None for an embedded broker, which has none."""
        connection = self._connection.connection()
        return http_url(connection.address, connection.welcome.http_port)

    def connect(self, timeout: Duration | None = None) -> "Client":
        """Connects if necessary, and checks that the broker responds. Raises ConnectionLost if it does not within
        `timeout`."""
        seconds = wait_seconds(timeout)
        if seconds is None:
            self._connection.connection()
        else:
            self._connection.reach(seconds)
        return self

    def publish(
        self, topic: str, value: Any, key: bytes | str | None = None, *, timeout: Duration | None = None,
        acks: str = "all", **options: Unpack[SendOptions],
    ) -> Published:  # fmt: skip
        """Sends one message and waits until it is stored; returns topic, partition and offset.

        Options: headers, timestamp, partition, priority, ttl, delay or deliver_at (the message then enters the
        topic later, and the offset is its id in `delayed`). `acks`: see `producer`. If the broker keeps refusing the
        message for the client's timeout, the refusal is raised. Raises RequestTimeout if there was no response, or
        after `timeout` if given: then the message may or may not be stored.
        """
        self._connection.check_fork()
        producer = self._publishers.get((topic, acks)) or self._publisher(topic, acks)
        verdict_seconds = self._connection.timeout + _VERDICT_SECONDS
        return producer.publish(value, key, options, wait_seconds(timeout), verdict_seconds)

    def producer(
        self,
        topic: str,
        *,
        linger: Duration = "5ms",
        batch_bytes: Size = MIB,
        batch_messages: int = 65_536,
        max_buffer_bytes: Size = 64 * MIB,
        timeout: Duration = 30,
        delivery_timeout: Duration = 120,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool | None = None,
    ) -> Producer:
        """A producer that batches. A batch is sent when it is full (bytes or messages) or `linger` old.

        `timeout`: how long a call waits while `max_buffer_bytes` are in flight. `delivery_timeout`: how long a
        message is retried. `acks`: all replicas in sync have a message when its future is done; leader: the one that
        leads the partition has it; none: nobody is asked. `compression`: none, lz4, zstd. `idempotent`: a repeat is
        not stored twice; it needs acks all, and is the default then.
        """
        options = producer_config(
            linger=linger,
            batch_bytes=batch_bytes,
            batch_messages=batch_messages,
            max_buffer_bytes=max_buffer_bytes,
            timeout=timeout,
            delivery_timeout=delivery_timeout,
            acks=acks,
            compression=compression,
            idempotent=idempotent,
        )
        producer = Producer(self._connection, check_name(topic), options)
        self._producers = [known for known in self._producers if not known.is_closed]
        self._producers.append(producer)
        return producer

    def read(
        self,
        topic: str,
        start: Any = "earliest",
        end: Any = None,
        partitions: Sequence[int] | int | None = None,
        **options: Unpack[ReadOptions],
    ) -> Reader:
        """Reads without a group: iterate for messages, or over `.batches()`.

        `start`: earliest, latest, an offset, a time ago (`-2h`) or a time. `end`, in the same form, stops there (not
        included); without it the reader waits for new messages. Both may be a mapping of partition to such a value.

        Options: max_bytes (8 MiB) and max_wait (`500ms`) of one fetch; isolation: read_committed, or read_uncommitted
        to include messages of open and aborted transactions; include_expired: otherwise expired messages are left out
        and counted; read_from: leader, or nearest: the node of a cluster that this client is connected to reads its
        own replica; timeout: the longest wait for the next message, then MessageTimeout.
        """
        now_ms = self._connection.clock.now_ms()
        config = reader_config(start, end, partitions, now_ms=now_ms, **options)
        return Reader(self._fetch_connection, check_name(topic), config)

    def search(self, topic: str, where: str, **options: Unpack[SearchOptions]) -> Search:
        """Messages that fit an expression such as `value.total > 300`, the newest first: iterate for them.

        Options: newest_first, start and end (see `read`), partitions, include_expired, cursor, and where it stops:
        limit (100 messages), max_messages and max_bytes (that it looks at), max_time (60 s).
        """
        return Search(self._connection, search_request(topic, where, options, self._connection.clock.now_ms()))

    def stream(
        self, topics: str | Sequence[str] | None = None, *, group: str, **options: Unpack[StreamOptions]
    ) -> Stream:
        """Reads as a member of a stream group: iterate for messages, or over `.batches()`.

        Options: pattern (a regular expression over topic names), start (where the group begins if it has no position:
        earliest, latest, an offset, a time), auto_commit (`5s`; False: only by hand), assignor (sticky, range,
        roundrobin), instance_id, client_id, session_timeout, heartbeat, max_bytes, max_wait, isolation, read_from and
        timeout (see `read`), and the callbacks on_assign, on_revoke and on_lost, which get a list of (topic,
        partition).
        """
        chosen = stream_config(topics, group, now_ms=self._connection.clock.now_ms(), **options)
        stream = Stream(self._connection, self._fetch_connection, chosen)
        self._streams = [known for known in self._streams if not known.is_closed]
        self._streams.append(stream)
        return stream

    def work(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        timeout: Duration | None = None,
        **options: Unpack[WorkOptions],
    ) -> Work:
        """Works as a consumer of a queue group: iterate for jobs, or over `.batches()`.

        Options: ordering (none, key), visibility (how long a lease lasts if it is not renewed), priority (only that
        level), max_messages (of a batch), prefetch (how many are received ahead), consumer (a name, for max_unacked),
        start (where a new group begins), max_bytes. `timeout`: the longest wait for a job, then MessageTimeout.
        """
        return self._workers.work(topics, group, timeout=timeout, **options)

    def worker(
        self, topics: str | Sequence[str], *, group: str, concurrency: int = 1, **options: Unpack[WorkOptions]
    ) -> Callable[[_Handler], _Handler]:
        """Decorator: `run_workers` calls the function with every job, `concurrency` at a time.

        Returning acks the job, an exception nacks it with the exception's text, `quiver.Reject` dead-letters it.
        Options are those of `work`, except the timeout.
        """

        def register(handler: _Handler) -> _Handler:
            self._workers.register(WorkerDefinition(handler, topics, group, concurrency, options))
            return handler

        return register

    def run_workers(self) -> None:
        """Runs all registered handlers until `stop_workers`, SIGTERM, Ctrl-C, or an error.

        Running handlers may finish, other jobs are given back; a second signal ends the process immediately.
        """
        self._workers.run()

    def stop_workers(self) -> None:
        """Ends `run_workers`, from another thread or task."""
        self._workers.stop()

    @property
    def worker_counters(self) -> WorkerCounters:
        """What the handlers have done: processed, failed, rejected, lost, in_flight."""
        return self._workers.counters

    def transaction(self, transactional_id: str | None = None, *, timeout: Duration = "60s") -> Transaction:
        """Publishes, commits offsets and acks jobs atomically: `with q.transaction("id") as tx`.

        Leaving the block commits; an exception aborts the transaction and propagates. The id names one producer of
        transactions at a time: its first use here fences others that use it. A transaction that is open for longer
        than `timeout` is aborted.
        """
        timeout_ms = parse_duration_ms(timeout, "timeout")
        return Transaction(lambda: self._transactionals.choose(transactional_id, timeout_ms))

    def transactional(
        self,
        transactional_id: str | None = None,
        *,
        timeout: Duration = "60s",
        batch_bytes: Size = TRANSACTION_BATCH_BYTES,
        compression: str = "none",
        delivery_timeout: Duration | None = None,
    ) -> Transactional:
        """A producer with explicit `begin`, `commit` and `abort`. With an id, it is the one that `transaction` uses.

        `batch_bytes`, `compression` and `delivery_timeout` (by default the timeout, and at most two minutes) say how
        its messages are sent (see `producer`); they apply to topics that it has not sent to before.
        """
        timeout_ms = parse_duration_ms(timeout, "timeout")
        sending = transaction_config(
            timeout_ms, batch_bytes=batch_bytes, compression=compression, delivery_timeout=delivery_timeout
        )
        return self._transactionals.get(transactional_id, timeout_ms, sending)

    def commit_transactions(
        self,
        keys: Iterable[ProducerKey | tuple[int, int]],
        *,
        key: str | None = None,
        description: str | None = None,
    ) -> bool:
        """Commits open transactions of several producers (their `producer_key`) as one.

        A second commit with the same `key` does nothing, whatever it names. Returns whether this one committed. The
        `description` says what is committed. Raises CommitKeyConflict if the first commit had another one.
        """
        return self.transactions.commit(keys, key=key, description=description)

    def abort_transactions(self, keys: Iterable[ProducerKey | tuple[int, int]]) -> None:
        """Aborts open transactions of several producers. Raises ProducerFenced if one of them was committed
        before."""
        self.transactions.abort_all(keys)

    def offsets(
        self,
        topic: str,
        at: Any = "latest",
        partitions: Iterable[int] | None = None,
        *,
        isolation: str = READ_COMMITTED,
    ) -> dict[int, int]:
        """The current offset of `at` per partition: earliest, latest, or a time.

        The latest is the next to be written or, with read_committed, where the first open transaction begins.
        """
        read_committed = is_committed(isolation)
        position = parse_position(at, self._connection.clock.now_ms(), "at")
        return offsets_at(self._connection, topic, position, partitions, read_committed=read_committed)

    def close(self, timeout: Duration | None = None) -> None:
        """Closes streams, producers and connections. Producers are flushed first, for at most `timeout`.

        Raises the first failure. Safe to call again. Does nothing in a forked child.
        """
        if self._is_closed or self._connection.is_forked:
            self._is_closed = True
            return
        self._is_closed = True
        first_error: QuiverError | None = None
        try:
            self._transactionals.close()
            first_error = self._workers.close(timeout)
            for stream in self._streams:
                try:
                    stream.close(done=not self._has_failed)
                except QuiverError as error:
                    first_error = first_error or error
            for producer in self._producers:
                try:
                    producer.close(timeout)
                except QuiverError as error:
                    first_error = first_error or error
            for publisher in self._publishers.values():
                with contextlib.suppress(QuiverError):  # the caller of publish was told
                    publisher.close(_LAST_SECONDS)
        finally:
            self._fetch_connection.close()
            self._connection.close()
        if first_error is not None:
            raise first_error

    def __enter__(self) -> "Client":
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        self._has_failed = True
        with contextlib.suppress(QuiverError):
            self.close(_LAST_SECONDS)

    def _publisher(self, topic: str, acks: str) -> Producer:
        """The producer that `publish` uses: it sends immediately, from the caller's own thread or task."""
        check_name(topic)
        with self._publishing:
            found = self._publishers.get((topic, acks))
            if found is None:
                options = publisher_config(acks, self._connection.timeout)
                found = Producer(self._connection, topic, options)
                if len(self._publishers) >= _PUBLISHERS_KEPT:
                    self._publishers.pop(next(iter(self._publishers))).close()
                self._publishers[topic, acks] = found
            return found
