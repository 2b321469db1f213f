# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Sends decisions about messages to one owner, and renews the leases of those that are still being processed."""

import threading
from collections import deque
from collections.abc import Sequence
from functools import partial

from quiver.client._backend_sync import Lock, Waiter
from quiver.client._sync.connection.connection import Connection, Outbound
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client._sync.work.consumer_state import ConsumerState
from quiver.client.work.held_run import HeldRun
from quiver.client.work.leases import Leases
from quiver.client.work.settled_log import log_settled
from quiver.client.work.settlement import AckedJob, Decision, Part, Refusal, Span, gather, refusals
from quiver.model.errors import ConnectionLost, LeaseLost, QuiverError, RequestTimeout, error_from_wire
from quiver.model.settlement import EXTEND
from quiver.protocol.messages import Failure, Response
from quiver.protocol.queue_messages import Settle, Settled, SettledPart
from quiver.structures.ordered_set import OrderedSet

_MOST_AT_ONCE = 10_000
"""Jobs and decisions in one request, so that it stays well below the size limit of requests."""
_MAX_IN_FLIGHT = 2
_MOST_REASON_CHARS = 200_000


class SettleRequest:
    """A request that was sent."""

    __slots__ = ("number", "parts", "sent_at")

    def __init__(self, number: int, parts: list[Part], sent_at: float) -> None:
        self.number = number
        self.parts = parts
        self.sent_at = sent_at


class Settler:
    """For the partitions of one worker. Jobs that are done, and other decisions, are appended to `decided`; `pump`
    sends them.

    Decisions that no caller waits for are sent in one or two requests at a time, so that acks gather while the last
    ones are written to disk.
    """

    def __init__(self, state: ConsumerState, broker: ReconnectingConnection) -> None:
        """`broker`: the connection to that worker, or to any: that passes on what others own."""
        self._state = state
        self.decided: deque[AckedJob | Decision] = deque()
        """Jobs that are done, and other decisions, to be sent in this order."""
        self.clock = broker.clock
        self.monotonic = broker.clock.monotonic
        self.is_asleep = True
        """The loop does not check `decided` by itself: `wake` must be called."""
        self.is_closed = False
        self.leases = Leases()
        self.wake = state.loop_wake.set
        self._broker = broker
        self._mutex = threading.Lock()
        self._sending = Lock()
        self._in_flight: OrderedSet[SettleRequest] = OrderedSet()
        self._request_count = 0
        self._returned: list[SettleRequest] = []
        self._reason_chars = 0
        self._retry_at = 0.0
        self._backoff = broker.new_backoff()
        self._last_error: QuiverError | None = None
        """Why the last request has to be sent again."""
        self._connection: Connection | None = None

    @property
    def _max_in_flight(self) -> int:
        """With ordering by key, decisions are settled strictly in order: one request at a time."""
        return 1 if self._state.is_ordered else _MAX_IN_FLIGHT

    def wake_soon(self) -> None:
        """Wakes the loop once: who decides something before it has woken up need not wake it again."""
        self.is_asleep = False  # first: the loop may be back asleep when the signal comes, and then sets it again
        self.wake()

    def decide(self, decision: Decision) -> None:
        """Adds a decision to be sent soon, without waiting for the response. A forked child decides nothing."""
        if self._broker.is_forked:
            return
        self._append(decision)
        if self.is_asleep:
            self.wake_soon()

    def settle(self, decision: Decision) -> int | None:
        """Sends a decision with everything that was decided before it, waits for the response, and raises a refusal.

        Without a response in time, raises the cause or RequestTimeout; the decision is still retried.
        """
        waiter = self.begin(decision)
        return self.end(decision, waiter, self._broker.timeout)

    def begin(self, decision: Decision) -> Waiter[Decision]:
        """Sends a decision with everything that was decided before it. What it returns is for `end`."""
        self._broker.check_fork()
        waiter: Waiter[Decision] = Waiter()
        decision.on_done = waiter.set
        self._append(decision)
        self.pump(is_urgent=True)
        if self.decided and self.is_asleep:
            self.wake_soon()
        return waiter

    def end(self, decision: Decision, waiter: Waiter[Decision], timeout: float) -> int | None:
        """Waits for the response to a decision; see `settle`."""
        try:
            self._broker.wait(waiter, timeout)
        except TimeoutError:
            raise self._last_error or RequestTimeout(seconds=self._broker.timeout) from None
        if decision.error is not None:
            raise decision.error
        return decision.until_ms

    def acked_elsewhere(self, spans: Sequence[Span]) -> None:
        """A transaction has acked messages: their lease is not renewed any more."""
        self.leases.close(spans)
        self._note_settled()

    def held(self, topic_id: int) -> int:
        """Messages of a topic that are not known to be settled."""
        with self._mutex:
            requests = (*self._in_flight, *self._returned)
        parts = (part for request in requests for part in request.parts if part.decision.action != EXTEND)
        unanswered = (end - start for part in parts for run, start, end, _ in part.spans if run.lease[0] == topic_id)
        return self.leases.open_count(topic_id) + sum(unanswered)

    @property
    def is_idle(self) -> bool:
        return not (self.decided or self._in_flight or self._returned)

    def due_at(self) -> float:
        """When to pump without being woken."""
        now = self.clock.monotonic()
        if sent_at := [request.sent_at for request in list(self._in_flight)]:  # responses come at any moment
            return min(sent_at) + self._broker.timeout
        if self._returned or self.decided:
            return max(now, self._retry_at)
        return max(self.leases.renew_at, self._retry_at if self._backoff.failures else 0.0)

    def pump(self, *, is_urgent: bool = False, timeout: float | None = None) -> None:
        """Sends what may be sent now. Never raises: what could not be sent is tried again."""
        if not is_urgent and not self._has_work():
            return
        with self._sending:
            request = self._take(is_urgent=is_urgent)
            if request is None:
                return
            try:
                self._connection = self._broker.connection(timeout)
                message = Settle([part.request() for part in request.parts])
                self._connection.send([Outbound(message, None, partial(self._answered, request))])
            except QuiverError as error:
                self._failed(request, error, was_sent=False)
            except BaseException:
                self._failed(request, ConnectionLost(address=self._broker.address, problem="sending was interrupted"))
                raise

    def check_answers(self) -> None:
        """Drops a connection that should have responded by now."""
        limit = self.clock.monotonic() - self._broker.timeout
        if self._connection is not None and any(request.sent_at < limit for request in list(self._in_flight)):
            problem = f"no response for {self._broker.timeout:g} s"
            self._connection.fail(ConnectionLost(address=self._broker.address, problem=problem))

    def may_be_expired(self, run: HeldRun) -> bool:
        """Whether to wait for an ack: it may be refused, or not be sent at all."""
        if self._broker.is_forked:
            return False
        return run.lost is not None or self.is_closed or self.clock.monotonic() >= run.expires_at

    def close(self, error: QuiverError) -> None:
        """Fails every decision without a response; nothing more is sent."""
        self.is_closed = True
        with self._mutex:
            parts = [part for request in (*self._in_flight, *self._returned) for part in request.parts]
            parts += gather(self.decided)
            self._in_flight.clear()
            self._returned = []
            self.decided.clear()
        for part in parts:
            self._refuse_all(part, error)

    def _has_work(self) -> bool:
        if len(self._in_flight) >= self._max_in_flight or self._sending.locked():
            return False
        now = self.clock.monotonic()
        if self._backoff.failures and now < self._retry_at:
            return False
        return bool(self.decided or self._returned or now >= self.leases.renew_at)

    def _take(self, *, is_urgent: bool) -> SettleRequest | None:
        with self._mutex:
            if len(self._in_flight) >= self._max_in_flight and not (is_urgent and not self._state.is_ordered):
                return None
            returned, self._returned = sorted(self._returned, key=lambda request: request.number), []
            parts = [part for request in returned for part in request.parts]
            parts += gather(self._take_decided())
            now = self.clock.monotonic()
            self.leases.close([span[:3] for part in parts if part.decision.action != EXTEND for span in part.spans])
            parts += self.leases.due(now)
            if not parts:
                return None
            self._request_count += 1
            request = SettleRequest(self._request_count, parts, now)
            self._in_flight.add(request)
            return request

    def _append(self, decision: Decision) -> None:
        with self._mutex:
            self._reason_chars += len(decision.reason)
            self.decided.append(decision)

    def _take_decided(self) -> list[AckedJob | Decision]:
        decided = self.decided
        if self._reason_chars <= _MOST_REASON_CHARS:
            self._reason_chars = 0
            return [decided.popleft() for _ in range(min(len(decided), _MOST_AT_ONCE))]
        taken: list[AckedJob | Decision] = []
        chars = 0
        while decided and len(taken) < _MOST_AT_ONCE and chars < _MOST_REASON_CHARS:
            item = decided.popleft()
            taken.append(item)
            chars += len(item.reason) if isinstance(item, Decision) else 0
        self._reason_chars -= chars
        return taken

    def _answered(self, request: SettleRequest, answer: Response | QuiverError, _: memoryview) -> None:
        if isinstance(answer, Failure):
            answer = error_from_wire(answer.code, answer.message, answer.retryable)
        elif not isinstance(answer, Settled | QuiverError) or (
            isinstance(answer, Settled) and len(answer.parts) != len(request.parts)
        ):
            answer = unexpected(answer)
        if isinstance(answer, QuiverError):
            self._failed(request, answer)
            return
        self._backoff.reset()
        self._last_error = None
        with self._mutex:
            self._in_flight.discard(request)
        for part, settled in zip(request.parts, answer.parts, strict=True):
            self._settled(part, settled, request.sent_at)
        self._note_settled()

    def _note_settled(self) -> None:
        state = self._state
        state.news.set()
        if self.decided or self.leases.renew_at < state.loop_sleeps_until:
            state.loop_wake.set()

    def _settled(self, part: Part, answer: SettledPart, sent_at: float) -> None:
        again = Part(part.decision)
        again.is_repeat = True  # a broker that shuts down may have written what it did not confirm
        for refusal in refusals(part, answer):
            if refusal.error.retryable and not part.is_renewal:
                self._last_error = refusal.error
                again.add(refusal[:3], refusal.decision)
            else:
                self._refused(part, refusal)
        if part.is_renewal:  # after the refusals: a lost lease must never look as if it had been renewed
            self.leases.renewed(part, sent_at)
        if not answer.refused:
            log_settled(part, answer)
        for decision in part.decisions:
            decision.until_ms = answer.until_ms
            if any(span[3] is decision for span in again.spans):
                again.decisions.append(decision)
            else:
                decision.part_done()
        if again.spans:
            self._send_again(SettleRequest(0, [again], sent_at))

    def _refused(self, part: Part, refusal: Refusal) -> None:
        run, start, end, decision, error = refusal
        if isinstance(error, LeaseLost):
            self.leases.lose((run, start, end))
            self._state.buffer.return_all()
        elif part.decision.action != EXTEND:
            self.leases.reopen((run, start, end))
        if decision is not None:
            decision.error = decision.error or error
        if not part.is_renewal and (decision is None or decision.on_done is None):
            self._state.note_refused(error)

    def _refuse_all(self, part: Part, error: QuiverError) -> None:
        for run, start, end, decision in part.spans:
            self._refused(part, Refusal(run, start, end, decision, error))
        for decision in part.decisions:
            decision.part_done()

    def _failed(self, request: SettleRequest, error: QuiverError, *, was_sent: bool = True) -> None:
        with self._mutex:
            if request not in self._in_flight:
                return
            self._in_flight.discard(request)
            self._last_error = error
            wait = self._back_off()
        if error.retryable and not (self.is_closed or self._broker.is_closed):
            self._broker.log.retrying("settling messages", error, self._backoff.failures, wait)
        for part in request.parts:
            if part.is_renewal:
                self.leases.renew_again(part, self._retry_at)
        request.parts = [part for part in request.parts if not part.is_renewal]
        if error.retryable and not self._broker.is_closed:
            for part in request.parts:
                part.is_repeat |= was_sent
            with self._mutex:
                self._returned.append(request)
        else:
            for part in request.parts:
                self._refuse_all(part, error)
        if self.is_asleep:
            self.wake_soon()

    def _send_again(self, request: SettleRequest) -> None:
        """The broker could not do it now."""
        with self._mutex:
            self._returned.append(request)
            self._back_off()
        if self.is_asleep:
            self.wake_soon()

    def _back_off(self) -> float:
        wait = self._backoff.next_seconds()
        self._retry_at = self.clock.monotonic() + wait
        return wait
