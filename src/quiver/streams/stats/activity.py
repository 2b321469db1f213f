"""What stream groups do: commits, rebalances, and why they rebalance."""

from collections import Counter
from typing import Literal

from quiver.streams.events import Event, MembershipChanged, OffsetsCommitted
from quiver.streams.membership import Membership
from quiver.telemetry.histogram import Histogram

Reason = Literal["join", "leave", "topics"]


class StreamActivity:
    """Counted when a record of the journal is applied; records that are read at the start do not count."""

    def __init__(self) -> None:
        self.commits: Counter[int] = Counter()
        """By group id, as the rebalances are."""
        self.rebalances: Counter[tuple[int, Reason]] = Counter()
        self.rebalance_seconds = Histogram()
        self.is_live = False
        self._known: dict[int, tuple[frozenset[str], int, int]] = {}
        """Members, and how many rebalances were begun and ended."""

    def applied(self, event: Event) -> None:
        if isinstance(event, MembershipChanged):
            self._changed(event.group_id, event.membership)
        elif isinstance(event, OffsetsCommitted) and self.is_live and not event.is_first:
            self.commits[event.group_id] += 1

    def forget(self, group_id: int) -> None:
        """The group was deleted."""
        self._known.pop(group_id, None)
        self.commits.pop(group_id, None)
        for key in [key for key in self.rebalances if key[0] == group_id]:
            del self.rebalances[key]

    def _changed(self, group_id: int, membership: Membership) -> None:
        members, stats = frozenset(membership.members), membership.stats
        before, begun, ended = self._known.get(group_id, (frozenset[str](), 0, 0))
        self._known[group_id] = members, stats.total, stats.successful
        if not self.is_live:
            return
        if stats.total > begun:
            reason: Reason = "join" if members - before else "leave" if before - members else "topics"
            self.rebalances[group_id, reason] += stats.total - begun
        if stats.successful > ended:
            self.rebalance_seconds.observe(stats.last_duration_ms / 1000)
