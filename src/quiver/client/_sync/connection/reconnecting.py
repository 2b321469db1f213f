# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""A connection to a broker that is made again whenever it breaks."""

import socket
from collections.abc import Callable
from typing import TypeVar

from quiver.client._backend_sync import Gate, Lock, acquire, sleep
from quiver.client._sync.connection.connection import ANY_WORKER, Connection, Reply
from quiver.client._sync.connection.environment import REAL_ENVIRONMENT, Environment
from quiver.client.backoff import retry_backoff
from quiver.client.connection.address import Address, Bootstrap
from quiver.client.connection.fork import watch_forks
from quiver.client.connection.retry_log import RetryLog
from quiver.client.produce.tracing import Tracing
from quiver.model.errors import (
    Closed,
    ConnectionLost,
    ForkRefused,
    InvalidRequest,
    ProtocolError,
    QuiverError,
    ShuttingDown,
    TopicNotFound,
    error_from_wire,
)
from quiver.model.names import check_name
from quiver.protocol.messages import Failure, GetMetadata, Message, Metadata, TopicInfo
from quiver.system.backoff import Backoff

Target = Bootstrap | Callable[[], socket.socket]
"""Addresses to dial, or a function that returns a connected socket (the embedded broker)."""

_T = TypeVar("_T")
_CONNECT_SECONDS = 10.0


class ReconnectingConnection:
    def __init__(
        self,
        target: Target,
        *,
        timeout: float,
        client_id: str = "quiver-python",
        environment: Environment = REAL_ENVIRONMENT,
        worker: int = ANY_WORKER,
    ) -> None:
        """To one worker of the broker, or to whichever accepts it: that passes on what others own."""
        self.clock = environment.clock
        self.randomness = environment.randomness
        self._network = environment.network
        self.timeout = timeout
        self.address = str(target) if isinstance(target, Bootstrap) else "the embedded broker"
        self._target = target
        self._chosen = 0
        """The address that responded last."""
        self.log = RetryLog(self.clock)
        self._client_id = client_id
        self._environment, self._worker = environment, worker
        self._of_workers: dict[int, ReconnectingConnection] = {}
        """Connections to single workers, for those who go to owners of partitions directly."""
        self._partition_workers: dict[int, tuple[int, ...]] = {}
        """By topic id, as far as topics were asked for; of a broker with several workers."""
        self._worker_count = 0
        """Of the broker that it was last connected to."""
        self._connection: Connection | None = None
        self._connecting = Lock()
        self.is_closed = False
        self.tracing: Tracing | None = None
        """Puts the messages of all producers into traces; None: they stay as they are."""
        self._forked_from: int | None = None
        watch_forks(self)

    def connection(self, timeout: float | None = None) -> Connection:
        """The connection, which is made again if it broke. Raises ConnectionLost if one attempt fails, or after
        `timeout`."""
        connection = self._connection
        if connection is not None and connection.is_open and self._forked_from is None:
            return connection
        self._check_usable()
        deadline = self.clock.monotonic() + (2 * _CONNECT_SECONDS if timeout is None else timeout)
        if not acquire(self._connecting, timeout):
            raise ConnectionLost(address=self.address, problem="no response in time")
        try:
            self._check_usable()
            connection = self._connection
            if connection is None or not connection.is_open:
                if connection is not None:
                    self.log.broke(connection.lost_by)
                    connection.close()
                self._connection = None
                connection = self._connect_to_worker(deadline)
                if connection.welcome.workers != self._worker_count:
                    self._worker_count = connection.welcome.workers
                    self._partition_workers.clear()  # those of a broker with another number of workers
                self._connection = connection
                self.log.connected(connection.address)
            return connection
        finally:
            self._connecting.release()

    @property
    def idle_connection(self) -> Connection | None:
        """The connection, if it is open and nobody is sending."""
        connection = self._connection
        if connection is None or not connection.is_open or connection.is_sending or self._forked_from is not None:
            return None
        return connection

    def wait(self, gate: Gate[_T], timeout: float | None) -> _T:
        """Waits for a gate that an answer opens, see `Connection.wait`."""
        connection = self._connection
        return gate.wait(timeout) if connection is None else connection.wait(gate, timeout)

    def new_backoff(self) -> Backoff:
        """A backoff for one operation that is retried."""
        return retry_backoff(self.randomness)

    def reach(self, timeout: float) -> None:
        """Connects, and tries again until the timeout. Raises ConnectionLost."""
        deadline = self.clock.monotonic() + timeout
        backoff = self.new_backoff()
        while True:
            try:
                self.connection(max(0.001, deadline - self.clock.monotonic()))
                return
            except (ConnectionLost, ShuttingDown) as error:
                wait = backoff.next_seconds()
                if self.clock.monotonic() + wait >= deadline:
                    raise
                self.log.retrying("connecting", error, backoff.failures, wait)
            sleep(wait)

    def call(self, request: Message, *, repeatable: bool = True, timeout: float | None = None) -> Reply:
        """The response to a request; a Failure is raised as its error.

        Connecting is tried again until the timeout. After a lost connection a request that was sent is only sent
        again if it is `repeatable`.
        """
        deadline = self.clock.monotonic() + (self.timeout if timeout is None else timeout)
        backoff = self.new_backoff()
        while True:
            sent = False
            try:
                connection = self.connection(max(0.001, deadline - self.clock.monotonic()))
                sent = True
                reply = connection.call(request, max(0.001, deadline - self.clock.monotonic()))
                if not isinstance(reply.answer, Failure):
                    return reply
                raise error_from_wire(reply.answer.code, reply.answer.message, reply.answer.retryable)
            except (ConnectionLost, ShuttingDown) as error:
                wait = backoff.next_seconds()
                if self.clock.monotonic() + wait >= deadline or self.is_closed:
                    raise
                if isinstance(error, ConnectionLost) and sent and not repeatable:
                    raise
                self.log.retrying(type(request).__name__, error, backoff.failures, wait)
            sleep(wait)

    def topic(self, name: str, timeout: float | None = None) -> TopicInfo:
        """The current metadata of a topic. Raises TopicNotFound if there is none."""
        check_name(name)
        answer = (self.call(GetMetadata([name]), timeout=timeout)).answer
        if not isinstance(answer, Metadata):
            raise unexpected(answer)
        for info in answer.topics:
            if info.name == name:
                self._partition_workers[info.id] = info.partition_workers
                return info
        raise TopicNotFound(topic=name)

    def of_partition(self, topic_id: int, partition: int) -> "ReconnectingConnection":
        """The connection to the owner of a partition, as far as it is known (`topic` tells); otherwise this one."""
        workers = self._partition_workers.get(topic_id, ())
        if not 0 <= partition < len(workers):
            return self
        worker = workers[partition]
        found = self._of_workers.get(worker)
        if found is None:
            made = ReconnectingConnection(
                self._target,
                timeout=self.timeout,
                client_id=self._client_id,
                environment=self._environment,
                worker=worker,
            )
            found = self._of_workers.setdefault(worker, made)
        return found

    @property
    def has_workers(self) -> bool:
        """Whether the broker is known to have several."""
        connection = self._connection
        return connection is not None and connection.welcome.workers > 1

    def knows_owners(self, topic_id: int) -> bool:
        """Whether `topic` was asked for it."""
        return topic_id in self._partition_workers

    def retire(self, timeout: float) -> None:
        """Closes the connection after its last responses; the next caller gets a new one."""
        connection, self._connection = self._connection, None
        if connection is not None and self._forked_from is None:
            connection.finish(timeout)
        for other in list(self._of_workers.values()):
            other.retire(timeout)

    def close(self) -> None:
        self.is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None and self._forked_from is None:
            connection.close()
        for other in list(self._of_workers.values()):
            other.close()

    def after_fork(self, parent_pid: int) -> None:
        self._forked_from = parent_pid

    @property
    def is_forked(self) -> bool:
        """Whether this process is a forked child of the one that made it: nothing is sent, closing does nothing."""
        return self._forked_from is not None

    def check_fork(self) -> None:
        if self._forked_from is not None:
            raise ForkRefused(pid=self._forked_from)

    def _check_usable(self) -> None:
        self.check_fork()
        if self.is_closed:
            raise Closed(what="the client")

    def _connect_to_worker(self, deadline: float) -> Connection:
        try:
            return self._connect(self._worker, deadline)
        except InvalidRequest:
            if self._worker == ANY_WORKER:
                raise
        # The broker has fewer workers since its last start: any of them passes requests on.
        return self._connect(ANY_WORKER, deadline)

    def _connect(self, worker: int, deadline: float) -> Connection:
        """Tries each address once, beginning with the one that responded last; each gets its share of the time."""
        if not isinstance(self._target, Bootstrap):
            return self._open(self._embedded(self._target), self.address, worker, deadline)
        addresses = self._target.addresses
        problem: QuiverError | None = None
        for step in range(len(addresses)):
            chosen = (self._chosen + step) % len(addresses)
            now = self.clock.monotonic()
            try:
                until = now + (deadline - now) / (len(addresses) - step)
                connection = self._dial(addresses[chosen], worker, until)
            except InvalidRequest:
                raise
            except QuiverError as error:
                problem = problem or error
            else:
                self._chosen = chosen
                return connection
        assert problem is not None, "there is at least one address"
        raise problem

    def _dial(self, address: Address, worker: int, deadline: float) -> Connection:
        try:
            sock = self._network.dial(address.host, address.port, self._step_seconds(deadline))
        except TimeoutError:
            raise ConnectionLost(address=address, problem="no response in time") from None
        except OSError as error:
            raise ConnectionLost(address=address, problem=error.strerror or str(error)) from None
        return self._open(sock, str(address), worker, deadline)

    def _embedded(self, connect: Callable[[], socket.socket]) -> socket.socket:
        try:
            return connect()
        except OSError as error:
            raise ConnectionLost(address=self.address, problem=error.strerror or str(error)) from None

    def _open(self, sock: socket.socket, address: str, worker: int, deadline: float) -> Connection:
        connection = Connection(sock, address)
        connection.open(self._client_id, self._step_seconds(deadline), worker)
        return connection

    def _step_seconds(self, deadline: float) -> float:
        return max(0.001, min(_CONNECT_SECONDS, self.timeout, deadline - self.clock.monotonic()))


def unexpected(answer: object) -> QuiverError:
    return ProtocolError(problem=f"the broker responded with {type(answer).__name__}")
