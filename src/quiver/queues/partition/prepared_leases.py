"""Acks of transactions that another worker decides: the messages stay leased until the outcome is known.

A prepared ack is an ordinary change: the lease is extended beyond any time, and the journal notes for which decision.
Nobody else gets the messages, and nothing but the outcome settles them. It is all in the journal, so it survives
restarts.
"""

from collections.abc import Sequence

import msgspec

from quiver.model.errors import LeaseLost
from quiver.model.settlement import SettleRequest
from quiver.queues.context import QueueContext
from quiver.queues.journal.events import AcksEnded, AcksPrepared
from quiver.queues.journal.journal import QueueJournal
from quiver.queues.partition.queue_group import QueueGroup
from quiver.queues.state.port import Refused, Run
from quiver.structures.interval_set import IntervalSet
from quiver.structures.offset_ranges import size

_LONGEST_MS = 100 * 365 * 24 * 3_600_000
"""A lease that was extended by this does not expire."""


class PreparedLeases:
    def __init__(self, journal: QueueJournal, context: QueueContext) -> None:
        self._journal = journal
        self._clock = context.lease_clock

    def __bool__(self) -> bool:
        """Whether there are any: most partitions never have some."""
        return bool(self._journal.prepared)

    @property
    def decisions(self) -> set[int]:
        """Those whose outcome is not known here."""
        return set(self._journal.prepared)

    def prepare(self, decision: int, group_id: int, lease: int, runs: Sequence[Run]) -> None:
        """In memory: it is on disk after the next `durable` of the journal. A repeat changes nothing.

        After LeaseLost or SettleInOrder nothing was changed.
        """
        prepared = AcksPrepared(group_id, decision, lease, sorted(runs))
        if prepared in self._journal.prepared.get(decision, ()):
            return
        group = self._journal.groups.get(group_id)
        if group is None or self.holds(group_id, runs):
            raise LeaseLost(message=self._journal.name)
        self._journal.put(group)
        self._check(group, prepared)
        extended = group.state.extend(lease, prepared.runs, self._held_until_ms())
        known = self._journal.prepared.setdefault(decision, [])
        known.append(prepared)

        def undo() -> None:
            group.state.take_back(extended.undo)
            known.remove(prepared)
            if not known:
                self._journal.prepared.pop(decision, None)

        self._journal.put(group, [prepared], undo)

    def _check(self, group: QueueGroup, prepared: AcksPrepared) -> None:
        """Raises what would refuse the acks now."""
        tried = group.state.ack(prepared.lease, prepared.runs)
        group.state.take_back(tried.undo)
        group.state.events = []
        if tried.refused:
            raise tried.refused[0].error

    def finish(self, decision: int, *, commit: bool, visibility_ms: dict[int, int]) -> list[int]:
        """The outcome: the messages are acked, or their lease goes on, for as long as the group's leases last.

        Returns the groups concerned. It is on disk after the next `durable`; a repeat changes nothing.
        """
        ended = self._journal.prepared.pop(decision, [])
        events: list[msgspec.Struct] = []
        for prepared in ended:
            group = self._journal.groups.get(prepared.group)
            if group is None:
                continue
            self._journal.put(group)
            # All that the lease has of a key was held with these messages, and goes on too.
            until_ms = self._clock.now_ms() + visibility_ms[group.id]
            group.state.extend(prepared.lease, prepared.runs, until_ms)
            if commit:
                self._ack(group, prepared)
            self.pin(group)
            events, group.state.events = [*events, *group.state.events], []
        if ended:
            self._journal.put_all([*events, AcksEnded(decision)])
        return [prepared.group for prepared in ended]

    def _ack(self, group: QueueGroup, prepared: AcksPrepared) -> None:
        """What the group has settled meanwhile, by a commit of an offset or a reset, is refused and settled."""
        refused = group.state.ack(prepared.lease, prepared.runs).refused
        group.counters.acks += size(prepared.runs) - sum(each.end - each.start for each in refused)
        group.pending_acks.add_unsynced(prepared.runs[0][0], self._journal.changes + 1)

    def holds(self, group_id: int, runs: Sequence[Run]) -> bool:
        """Whether a transaction acks some of these messages."""
        held = self._of(group_id)
        return any(held.overlaps(start, end) for start, end in runs)

    def split(self, request: SettleRequest) -> tuple[list[Run], list[Refused]]:
        """What a request may settle, and what it may not because a transaction acks it."""
        held = self._of(request.group_id)
        free: list[Run] = []
        refused: list[Refused] = []
        for start, end in request.runs:
            free += held.gaps(start, end)
            refused += (Refused(*run, LeaseLost(message=self._journal.name)) for run in held.within(start, end))
        return free, refused

    def pin(self, group: QueueGroup) -> None:
        """After something that changes the end of leases: those that are prepared have none."""
        for prepared in self._all():
            if prepared.group == group.id:
                group.state.extend(prepared.lease, prepared.runs, self._held_until_ms())

    def _of(self, group_id: int) -> IntervalSet:
        runs = IntervalSet()
        for prepared in self._all():
            if prepared.group == group_id:
                for start, end in prepared.runs:
                    runs.add(start, end)
        return runs

    def _all(self) -> list[AcksPrepared]:
        return [prepared for each in self._journal.prepared.values() for prepared in each]

    def _held_until_ms(self) -> int:
        return self._clock.now_ms() + _LONGEST_MS
