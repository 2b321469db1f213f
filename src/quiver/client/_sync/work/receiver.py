# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Receives messages while there is room for them."""

import math
import threading
from typing import TypeVar

from quiver.client._backend_sync import Gate, Lock
from quiver.client._sync.connection.connection import Connection, Outbound
from quiver.client._sync.connection.reconnecting import unexpected
from quiver.client._sync.work.consumer_state import ConsumerState
from quiver.client._sync.work.settlers import Settlers
from quiver.client.work.held_run import HeldRun
from quiver.client.work.options import MOST_PER_RECEIVE
from quiver.client.work.window import PrefetchWindow
from quiver.model.errors import ConnectionLost, QuiverError, TopicNotFound, error_from_wire
from quiver.protocol.messages import Failure, Response
from quiver.protocol.queue_messages import Receive, Received

_T = TypeVar("_T")
_WAIT_MS = 20_000
_SMALL_REQUEST_SECONDS = 0.05
"""After this time, even room for a small batch is worth a request."""

_CONNECT_SECONDS = 1.0
"""How long one of several workers is waited for before the next one is asked."""
_EMPTY_SECONDS = 0.01
"""The shortest time between an empty response and the next request."""


class Receiver:
    """One request is in flight while the buffer has room, so urgent messages arrive as soon as possible.

    The workers of a broker are asked in turn: each returns what it has itself, or else what the others have. What the
    consumer holds of a topic is limited over all of them, so it is counted here (`Received.max_unacked`).
    """

    def __init__(self, state: ConsumerState, settlers: Settlers) -> None:
        self._state = state
        self._broker = state.broker
        self._config = config = state.config
        self._settlers = settlers
        self._buffer = state.buffer
        self._mutex = threading.Lock()
        self._sending = Lock()
        self._topics: dict[int, str] = {}
        self._max_unacked: dict[int, int] = {}
        """By topic id, if the broker has several workers: none of them knows what is held at the others."""
        self._asked_topics: list[int] = []
        self._asked = 0
        self._asked_at = 0.0
        self._retry_at = 0.0
        self._backoff = state.broker.new_backoff()
        self._connection: Connection | None = None
        self._owners = [state.broker]
        """Connections to all workers that own partitions of the topics; the first is asked next."""
        self.window = PrefetchWindow(fixed=config.prefetch, floor=config.concurrency)
        self.is_wanted = False
        """Somebody waits for a message."""
        self.was_full = False
        """The last response had as much as was asked for."""
        self._is_paused = False
        self.is_stopped = False
        self.error: QuiverError | None = None
        """Why there will be no more messages."""

    def open(self, timeout: float | None = None) -> None:
        """Finds the topics. Raises TopicNotFound."""
        found = [self._broker.topic(name, timeout) for name in self._config.topics]
        places = [(topic.id, partition) for topic in found for partition in range(topic.partitions)]
        self._owners = list(dict.fromkeys(self._broker.of_partition(*place) for place in places))
        self._topics = {topic.id: topic.name for topic in found}

    @property
    def is_begun(self) -> bool:
        """Somebody has asked for a job."""
        return self._asked_at > 0

    def stop(self) -> None:
        """Sends no more requests. The response to the last one may still come."""
        self.is_stopped = True

    def due_at(self) -> float:
        """When to send the next request without being woken."""
        if self._asked:
            return self._asked_at + _WAIT_MS / 1000 + self._broker.timeout
        is_off = not self.is_begun or self.is_stopped or self._is_paused
        if is_off or self.error is not None or self._room() < 1:
            return math.inf
        return max(self._retry_at, self._asked_at + _SMALL_REQUEST_SECONDS)

    def ask(self, timeout: float | None = None, *, is_waited_for: bool = False) -> None:
        """Sends a request if it is time for one. Never raises: `error` says what is wrong.

        `is_waited_for`: see `Connection.send`.
        """
        if self._asked or self.is_stopped or self.error is not None or self._sending.locked():
            return
        with self._sending:
            count = self._begin()
            if not count:
                return
            try:
                if not self._topics:
                    self.open(timeout)
                self._owners.append(self._owners.pop(0))
                if len(self._owners) > 1:
                    timeout = _CONNECT_SECONDS if timeout is None else min(timeout, _CONNECT_SECONDS)
                self._connection = self._owners[-1].connection(timeout)
                request = Outbound(self._request(count), None, self._answered)
                self._connection.send([request], is_waited_for=is_waited_for)
            except QuiverError as error:
                self._failed(error)
            except BaseException:
                self._asked = 0
                raise

    def wait(self, gate: Gate[_T], timeout: float | None) -> _T:
        """Waits for a gate that the response to the last request opens, see `Connection.wait`."""
        return self._owners[-1].wait(gate, timeout)

    def pause(self, timeout: float) -> None:
        """Ends a request that still waits for messages, after taking what has been sent; until `resume`."""
        self._is_paused = True
        with self._sending:
            if self._asked:
                self._owners[-1].retire(timeout)

    def resume(self) -> None:
        self._is_paused = False

    def _request(self, count: int) -> Receive:
        config = self._config
        return Receive(
            self._asked_topics or list(self._topics),
            config.group,
            config.consumer,
            count,
            config.max_bytes,
            _WAIT_MS,
            config.visibility_ms,
            config.ordering,
            config.priority,
            config.start,
        )

    def check_answers(self) -> None:
        """Drops a connection that should have responded by now."""
        waited = self._broker.clock.monotonic() - self._asked_at
        if self._asked and self._connection is not None and waited > _WAIT_MS / 1000 + self._broker.timeout:
            problem = f"no response for {waited:.0f} s"
            self._connection.fail(ConnectionLost(address=self._broker.address, problem=problem))

    def _room(self) -> int:
        if self._buffer.size_bytes >= self._config.max_bytes:
            return 0
        waiting = self._buffer.count
        return max(self.window.size - waiting, 1 if self.is_wanted and not waiting else 0)

    def _unacked_room(self) -> int:
        """How many messages of every topic that is asked for the consumer may hold in addition."""
        rooms = {id: limit - self._settlers.held(id) for id, limit in self._max_unacked.items()}
        self._asked_topics = [id for id, room in rooms.items() if room > 0]
        return min((room for room in rooms.values() if room > 0), default=0 if rooms else MOST_PER_RECEIVE)

    def _begin(self) -> int:
        """How many to ask for now; they count as asked for."""
        with self._mutex:
            now = self._broker.clock.monotonic()
            if self._asked or self.is_stopped or self._is_paused or now < self._retry_at:
                return 0
            room = min(self._room(), MOST_PER_RECEIVE, self._unacked_room())
            step = min([self.window.step, *(max(1, limit // 4) for limit in self._max_unacked.values())])
            is_worth_it = room >= step or now - self._asked_at >= _SMALL_REQUEST_SECONDS
            if room < 1 or not is_worth_it:
                return 0
            self._asked, self._asked_at = room, now
            return room

    def _answered(self, answer: Response | QuiverError, payload: memoryview) -> None:
        if isinstance(answer, Failure):
            answer = error_from_wire(answer.code, answer.message, answer.retryable)
        if isinstance(answer, QuiverError):
            self._failed(answer)
        elif not isinstance(answer, Received):
            self._failed(unexpected(answer))
        else:
            self._backoff.reset()
            self._max_unacked |= zip(self._asked_topics or self._topics, answer.max_unacked, strict=False)
            self._take(answer, payload)
            self._state.note_received()

    def _take(self, answer: Received, payload: memoryview) -> None:
        now = self._broker.clock.monotonic()
        runs: list[HeldRun] = []
        position = 0
        for run in answer.runs:
            frame = payload[position : position + run.length]
            position += run.length
            try:
                runs.append(HeldRun(run, self._topics.get(run.topic_id, str(run.topic_id)), frame, now))
            except QuiverError as error:
                self._state.note_refused(error)
        self._settlers.add(runs)
        self._buffer.add(runs, now)
        with self._mutex:
            self.was_full = sum(run.count for run in runs) >= self._asked
            self._asked = 0
            if not runs:
                self._retry_at = now + _EMPTY_SECONDS

    def _failed(self, error: QuiverError) -> None:
        with self._mutex:
            self._asked = 0
            if isinstance(error, TopicNotFound) and self._topics:
                self._topics = {}  # it may have been created again with another id
                self._max_unacked, self._asked_topics = {}, []
            elif not error.retryable:
                self.error = error
            wait = self._backoff.next_seconds()
            self._retry_at = self._broker.clock.monotonic() + wait
        if self.error is None and not self.is_stopped and not self._broker.is_closed:
            self._broker.log.retrying(
                f"receiving for group {self._config.group}", error, self._backoff.failures, wait
            )
        self._state.note_received()
