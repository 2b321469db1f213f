# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The settlers of a consumer: one per worker of the broker that owns what it holds."""

import threading
from collections.abc import Iterable, Sequence

from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.work.consumer_state import ConsumerState
from quiver.client._sync.work.settler import Settler
from quiver.client.work.held_run import HeldRun
from quiver.client.work.settlement import Decision, Span
from quiver.model.errors import QuiverError

_CONNECT_SECONDS = 1.0
"""How long one of several workers may hold up what is for the others. A worker that was killed is back sooner."""


class Settlers:
    """Decisions go directly to the owner of their messages. A broker of one worker has one settler."""

    def __init__(self, state: ConsumerState) -> None:
        self._state = state
        self._mutex = threading.Lock()
        self._by_owner: dict[ReconnectingConnection, Settler] = {}
        self._by_partition: dict[tuple[int, int], Settler] = {}
        """By topic id and partition. It stays the same as long as the consumer lives, so a run has one settler."""
        self._all: tuple[Settler, ...] = ()

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        for settler in self._all:
            settler.leases.after_fork()

    def of(self, run: HeldRun) -> Settler:
        place = run.lease[:2]
        return self._by_partition.get(place) or self._add(place)

    def _add(self, place: tuple[int, int]) -> Settler:
        with self._mutex:
            owner = self._state.broker.of_partition(*place)
            settler = self._by_owner.get(owner)
            if settler is None:
                settler = self._by_owner[owner] = Settler(self._state, owner)
                self._all = (*self._all, settler)
            return self._by_partition.setdefault(place, settler)

    # deciding

    def decide(self, decision: Decision) -> None:
        """Adds a decision to be sent soon, without waiting for the response."""
        for settler, own in self._split(decision):
            settler.decide(own)

    def settle(self, decision: Decision) -> None:
        """As `Settler.settle`, at all owners at the same time. Raises the first refusal."""
        split = self._split(decision)
        if len(split) == 1:
            split[0][0].settle(decision)
            return
        broker = self._state.broker
        deadline = broker.clock.monotonic() + broker.timeout
        begun = [(settler, own, settler.begin(own)) for settler, own in split]
        first: QuiverError | None = None
        for settler, own, waiter in begun:
            try:
                settler.end(own, waiter, max(0.0, deadline - broker.clock.monotonic()))
            except QuiverError as error:
                first = first or error
        if first is not None:
            raise first

    def acked_elsewhere(self, spans: Sequence[Span]) -> None:
        """A transaction has acked messages: their leases are not renewed any more."""
        for settler, own in self._spans_by_settler(spans).items():
            settler.acked_elsewhere(own)

    def may_be_expired(self, run: HeldRun) -> bool:
        """Whether to wait for an ack: it may be refused, or not be sent at all."""
        return self.of(run).may_be_expired(run)

    def _split(self, decision: Decision) -> list[tuple[Settler, Decision]]:
        by_settler = self._spans_by_settler(decision.spans)
        if len(by_settler) == 1:
            return [(next(iter(by_settler)), decision)]
        return [(settler, decision.of(spans)) for settler, spans in by_settler.items()]

    def _spans_by_settler(self, spans: Iterable[Span]) -> dict[Settler, list[Span]]:
        found: dict[Settler, list[Span]] = {}
        for span in spans:
            found.setdefault(self.of(span[0]), []).append(span)
        return found

    # leases

    def add(self, runs: Iterable[HeldRun]) -> None:
        """Leases that are renewed from now on."""
        for run in runs:
            self.of(run).leases.add([run])

    def held(self, topic_id: int) -> int:
        """Messages of a topic that are not known to be settled."""
        return sum(settler.held(topic_id) for settler in self._all)

    def make_due(self) -> None:
        """Renews all leases immediately: it is not known whether they still hold."""
        for settler in self._all:
            settler.leases.make_due()

    # sending

    def pump(self, *, is_urgent: bool = False, timeout: float | None = None) -> None:
        """Sends what may be sent now. Never raises: what could not be sent is tried again."""
        settlers = self._all
        if len(settlers) > 1:
            timeout = _CONNECT_SECONDS if timeout is None else min(timeout, _CONNECT_SECONDS)
        for settler in settlers:
            settler.pump(is_urgent=is_urgent, timeout=timeout)

    def due_at(self, default: float) -> float:
        """When to pump without being woken."""
        return min((settler.due_at() for settler in self._all), default=default)

    def note_loop(self, *, is_asleep: bool) -> None:
        """Whether the loop has to be woken to send what is decided from now on."""
        for settler in self._all:
            settler.is_asleep = is_asleep

    @property
    def is_idle(self) -> bool:
        return all(settler.is_idle for settler in self._all)

    def check_answers(self) -> None:
        """Drops connections that should have responded by now."""
        for settler in self._all:
            settler.check_answers()

    def close(self, error: QuiverError) -> None:
        """Fails every decision without a response; nothing more is sent."""
        for settler in self._all:
            settler.close(error)
