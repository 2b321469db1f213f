"""Settles leased messages of one partition: on request, in a transaction, or when the lease expires."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest, LeaseLost
from quiver.model.queue import QueueSettings
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT, SettleRequest
from quiver.outbox.outbox import Move
from quiver.partition.traffic import Traffic
from quiver.queues.context import RECENT_LEASES, QueueContext
from quiver.queues.journal.events import Died
from quiver.queues.journal.journal import QueueJournal
from quiver.queues.journal.moves import moves_of
from quiver.queues.partition.prepared_leases import PreparedLeases
from quiver.queues.partition.queue_group import Counters, QueueGroup
from quiver.queues.partition.settled_messages import SettledMessages
from quiver.queues.state.port import Counts, GroupState, Refused, Run, Settlement
from quiver.queues.state.retry_policy import RetryPolicy
from quiver.structures.offset_ranges import size
from quiver.telemetry.histogram import WAIT_SECONDS

_RUNS_AT_ONCE = 1_000
_REASON_LENGTH = 1_000
"""How many characters of an error are kept: it is in the journal and in memory, per run of messages."""


class PreparedAcks(NamedTuple):
    """Acked in memory, as part of a transaction that is being decided."""

    group: QueueGroup
    events: list[msgspec.Struct]
    """Empty when nothing was acked, and once they are queued for the journal; until then no snapshot is taken."""
    take_back: Callable[[], None]
    token: int
    """Of `PendingAcks`."""


class LeaseSettler:
    def __init__(
        self, journal: QueueJournal, settled: SettledMessages, traffic: Traffic, context: QueueContext
    ) -> None:
        self._journal = journal
        self._settled = settled
        self._ack_seconds = traffic.ack_seconds
        self._clock = context.lease_clock
        self._randomness = context.randomness
        self._delivery_times = context.delivery_times
        self.prepared = PreparedLeases(journal, context)

    async def settle(self, request: SettleRequest, settings: QueueSettings) -> Settlement:
        """In memory: it is on disk after the next `durable` of the journal. Dead letters are on their way."""
        if self._journal.prepared and request.action != EXTEND:
            free, held = self.prepared.split(request)
            if held:
                rest = Settlement([])
                if free:
                    rest = await self.settle(msgspec.structs.replace(request, runs=free), settings)
                return rest._replace(refused=[*rest.refused, *held])
        group, runs = self._journal.groups.get(request.group_id), request.runs
        if group is None:
            return Settlement([Refused(start, end, self._lost(start, end)) for start, end in runs])
        change = self._change(group.state, request, settings)
        ordered = sorted(runs) if len(runs) > 1 else runs
        parts: list[Settlement] = []
        for at in range(0, len(ordered), _RUNS_AT_ONCE):
            if at:
                await asyncio.sleep(0)
            parts.append(self._make(group, request.action, ordered[at : at + _RUNS_AT_ONCE], change))
        if self._journal.prepared and request.action == EXTEND:
            self.prepared.pin(group)
            self._journal.put(group)
        settlement = parts[0] if len(parts) == 1 else _joined(parts)
        if request.action == ACK:
            lease, delivered_ms = self._delivery_times[request.lease_id % RECENT_LEASES]
            if lease == request.lease_id and not settlement.refused:
                took = max(0, self._clock.now_ms() - delivered_ms) / 1000
                count = runs[0][1] - runs[0][0] if len(runs) == 1 else size(runs)
                self._ack_seconds.counts[bisect_left(WAIT_SECONDS, took)] += count
                self._ack_seconds.sum += took * count
        if request.is_repeat and settlement.refused:
            settlement = settlement._replace(refused=await self._compared(group, settlement.refused))
        return settlement

    async def _compared(self, group: QueueGroup, refused: Sequence[Refused]) -> list[Refused]:
        """Split into what is settled already and what is not."""
        settled = await self._settled.among(group, [(each.start, each.end) for each in refused])
        found: list[Refused] = []
        for each in refused:
            parts = [(start, end, True) for start, end in settled.within(each.start, each.end)]
            parts += ((start, end, False) for start, end in settled.gaps(each.start, each.end))
            found += (
                self._named(Refused(start, end, each.error, is_settled)) for start, end, is_settled in sorted(parts)
            )
        return found

    def _change(
        self, state: GroupState, request: SettleRequest, settings: QueueSettings
    ) -> Callable[[Sequence[Run]], Settlement]:
        lease, action, delay_ms = request.lease_id, request.action, request.delay_ms
        if action == ACK:
            return lambda runs: state.ack(lease, runs)
        reason, now_ms = request.reason[:_REASON_LENGTH], self._clock.now_ms()
        if action == NACK:
            jitter = 0.5 + self._randomness.jitter() / 2
            policy = RetryPolicy(settings, now_ms, jitter, delay_ms, request.is_counted, reason)
            return lambda runs: state.nack(lease, runs, policy)
        if action == REJECT:
            return lambda runs: state.reject(lease, runs, reason)
        if action == EXTEND:
            until_ms = now_ms + (settings.visibility_ms if delay_ms is None else delay_ms)
            return lambda runs: state.extend(lease, runs, until_ms)
        raise InvalidRequest(problem=f"{action} is not an action: 0 ack, 1 nack, 2 reject, 3 extend")

    def _make(
        self, group: QueueGroup, action: int, runs: Sequence[Run], change: Callable[[Sequence[Run]], Settlement]
    ) -> Settlement:
        """Makes a change and queues it for the journal, with how to undo it."""
        settlement = change(runs)
        if settlement.refused:
            settlement = settlement._replace(refused=[self._named(refused) for refused in settlement.refused])
            count = size(runs) - size(refused[:2] for refused in settlement.refused)
            if not count:
                return settlement
        else:
            count = size(runs)
        died: Sequence[Died] = ()
        moves: Sequence[Move] = ()
        if settlement.dead:
            died = self._journal.move_to_dlq(group, settlement.dead)
            moves = moves_of(died)
        _count(group.counters, action, count)

        def undo() -> None:
            self._journal.take_back_moves(moves)
            group.state.take_back(settlement.undo)
            group.undone.dead += sum(dead.end - dead.start for dead in settlement.dead)
            _count(group.undone, action, count)

        self._journal.put(group, died, undo)
        if action != EXTEND:
            group.pending_acks.add_unsynced(runs[0][0], self._journal.changes)
        if not moves:
            return settlement
        self._journal.carry(moves)
        return settlement._replace(moves=moves)

    def _named(self, refused: Refused) -> Refused:
        """States do not know their partition, so the error gets its place here."""
        if not isinstance(refused.error, LeaseLost):
            return refused
        return refused._replace(error=self._lost(refused.start, refused.end))

    def _lost(self, start: int, end: int) -> LeaseLost:
        what = f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"
        return LeaseLost(message=f"{self._journal.name} {what}")

    def prepare_acks(self, group_id: int, lease: int, runs: Sequence[Run]) -> PreparedAcks:
        """Acks for a transaction that is being decided, in memory only.

        The caller ends it by `finish_acks` or `take_back_acks`. After LeaseLost or SettleInOrder nothing was changed.
        """
        group = self._journal.groups.get(group_id)
        if group is None or (self.prepared and self.prepared.holds(group_id, runs)):
            raise LeaseLost(message=self._journal.name)
        self._journal.put(group)
        runs = sorted(runs)
        settlement = group.state.ack(lease, runs)
        events, group.state.events = group.state.events, []
        if settlement.refused:
            group.state.take_back(settlement.undo)
            raise settlement.refused[0].error
        count = size(runs)
        _count(group.counters, ACK, count)

        def take_back() -> None:
            group.state.take_back(settlement.undo)
            _count(group.undone, ACK, count)

        if events:
            self._journal.hold()
        token = group.pending_acks.add_undecided(runs) if runs else 0
        return PreparedAcks(group, events, take_back, token)

    async def finish_acks(self, prepared: PreparedAcks) -> None:
        """The transaction is committed. On return the acks are on disk; after an error it is called again."""
        if prepared.events:
            self._journal.put_all(prepared.events)
            prepared.group.pending_acks.decided(prepared.token, self._journal.changes)
            prepared.events.clear()
            self._journal.let_go()
        await self._journal.durable()

    def take_back_acks(self, prepared: PreparedAcks) -> None:
        """The transaction is not committed: the messages are leased as before."""
        prepared.take_back()
        prepared.group.pending_acks.taken_back(prepared.token)
        if prepared.events:
            self._journal.let_go()

    async def expire(self, group: QueueGroup, settings: QueueSettings) -> None:
        """Ends leases that have expired, and makes retries available that are due."""
        now_ms, state = self._clock.now_ms(), group.state
        before: tuple[int, Counts] | None = None
        while (next_ms := state.next_time_ms()) is not None and next_ms <= now_ms:
            counts = state.counts()
            if (next_ms, counts) == before:
                return  # the state can do nothing more about it
            before = (next_ms, counts)
            dead = state.expire(now_ms, settings, may_die=not group.in_offset_order)
            died = self._journal.move_to_dlq(group, dead)
            group.counters.expired_leases += counts.leased - state.counts().leased
            if died or state.events:
                self._journal.put(group, died)
                if dead:
                    group.pending_acks.add_unsynced(min(each.start for each in dead), self._journal.changes)
                self._journal.carry(moves := moves_of(died))
                is_waited_for = bool(moves) or not dead  # those that carry the moves out wait for the disk
                await (self._journal.written() if is_waited_for else self._journal.durable())
            await asyncio.sleep(0)


def _count(counters: Counters, action: int, count: int) -> None:
    if action == ACK:
        counters.acks += count
    elif action == NACK:
        counters.nacks += count
    elif action == REJECT:
        counters.rejects += count
    else:
        counters.extensions += count


def _joined(parts: Sequence[Settlement]) -> Settlement:
    return Settlement(
        [refused for part in parts for refused in part.refused],
        [dead for part in parts for dead in part.dead],
        min((part.until_ms for part in parts if part.until_ms is not None), default=None),
        moves=[move for part in parts for move in part.moves],
    )
