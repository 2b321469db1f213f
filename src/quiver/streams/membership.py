"""The membership of one stream group. Pure: calls in, changed state out.

The broker computes who should have what (the target) whenever members, subscriptions or topics change, and raises
the generation. A member that owns more than its target is asked to give up the rest; a partition goes to its next
owner only when the last one has given it up, has left, or was silent for too long. So there is never more than one
owner, and partitions that do not move are read without a pause. Under the eager protocol everybody gives up
everything first, and nobody gets anything before all have.

`now_ms` is the steady clock, not the wall clock, so that a corrected wall clock removes nobody.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from quiver.model.errors import GenerationMismatch, GroupProtocolMismatch, MemberFenced, MemberNotFound
from quiver.model.names import TopicPartition
from quiver.model.position import EARLIEST, Position
from quiver.model.topic import TopicSize
from quiver.streams.assignors import ASSIGNORS, AssignorName
from quiver.streams.member import REVOCATION_MS, Member, Subscription
from quiver.structures.name_pattern import matching

Protocol = Literal["cooperative", "eager"]
GroupStateName = Literal["empty", "rebalancing", "stable", "dead"]

FENCED_REMEMBERED = 100

TRANSITIONS: tuple[tuple[GroupStateName, str, GroupStateName], ...] = (
    ("empty", "first member joins", "stable"),
    ("stable", "member joins, leaves or expires, or topics change", "rebalancing"),
    ("stable", "change that moves nothing", "stable"),
    ("rebalancing", "every member has given up and received", "stable"),
    ("rebalancing", "another change", "rebalancing"),
    ("stable", "last member leaves or expires", "empty"),
    ("rebalancing", "last member leaves or expires", "empty"),
    ("empty", "group deleted, or its offsets expire", "dead"),
)
"""The state table; the diagram in the documents is made from it."""


Topics = Mapping[str, TopicSize]


class JoinOptions(NamedTuple):
    """How a member joins."""

    member_id: str | None = None
    """The id of a member that comes back."""
    protocol: Protocol = "cooperative"
    assignor: AssignorName | None = None
    """None: the group's own."""
    start: Position = EARLIEST
    """Where the group begins in topics in which it has no position yet."""


class JoinRequest(NamedTuple):
    subscription: Subscription
    options: JoinOptions = JoinOptions()


class RebalanceStats(msgspec.Struct):
    total: int = 0
    successful: int = 0
    failed: int = 0
    partitions_moved: int = 0
    revocation_timeouts: int = 0
    last_duration_ms: int = 0
    total_duration_ms: int = 0
    began_at_ms: int | None = None
    ended_at_ms: int = 0
    """When the last rebalance ended."""

    @property
    def average_duration_ms(self) -> float:
        return self.total_duration_ms / self.successful if self.successful else 0.0

    @staticmethod
    def together(parts: Iterable["RebalanceStats"]) -> "RebalanceStats":
        """Sums over all rebalances, and the duration of the one that ended last."""
        all_parts = list(parts)
        last = max(all_parts, key=lambda part: part.ended_at_ms, default=RebalanceStats())
        return RebalanceStats(
            total=sum(part.total for part in all_parts),
            successful=sum(part.successful for part in all_parts),
            failed=sum(part.failed for part in all_parts),
            partitions_moved=sum(part.partitions_moved for part in all_parts),
            revocation_timeouts=sum(part.revocation_timeouts for part in all_parts),
            last_duration_ms=last.last_duration_ms,
            total_duration_ms=sum(part.total_duration_ms for part in all_parts),
            ended_at_ms=last.ended_at_ms,
        )


class Membership(msgspec.Struct, kw_only=True):
    """msgspec encodes all of it: that is what the journal keeps."""

    protocol: Protocol = "cooperative"
    assignor: AssignorName = "sticky"
    generation: int = 0
    members: dict[str, Member] = msgspec.field(default_factory=dict)
    fenced: list[str] = msgspec.field(default_factory=list)
    """The members that were removed last, so that they get a clear error."""
    stats: RebalanceStats = msgspec.field(default_factory=RebalanceStats)

    @property
    def state(self) -> GroupStateName:
        if not self.members:
            return "empty"
        return "stable" if all(member.is_settled for member in self.members.values()) else "rebalancing"

    @property
    def leader_id(self) -> str | None:
        """The member that has been there longest."""
        return min(self.members.values(), key=lambda m: (m.joined_at_ms, m.id)).id if self.members else None

    def owner_of(self, partition: TopicPartition) -> str | None:
        return next((member.id for member in self.members.values() if partition in member.owned), None)

    # what members do

    def join(
        self, request: JoinRequest, topics: Topics, now_ms: int, *, new_id: Callable[[], str], joined_at_ms: int
    ) -> Member:
        """A new member, or one that comes back: by its member id, or by its instance id within its session.

        Coming back with the same subscription changes nothing for the others. Under the eager protocol, and for an
        instance that was restarted, it also means that the member has given up what it was asked to.
        """
        subscription, options = request
        if not self.members:
            self.protocol, self.assignor = options.protocol, options.assignor or "sticky"
        elif options.protocol != self.protocol or options.assignor not in (None, self.assignor):
            raise GroupProtocolMismatch(protocol=self.protocol, assignor=self.assignor)
        member = self._returning(subscription, options.member_id, new_id)
        if member is None:
            member = Member(id=new_id(), subscription=subscription, joined_at_ms=joined_at_ms, heartbeat_at_ms=now_ms)
            self.members[member.id] = member
            self.rebalance(topics, now_ms)
        else:
            changed = member.subscription != subscription
            member.subscription = subscription
            member.heard(now_ms)
            if changed:
                self.rebalance(topics, now_ms)
            if self.protocol == "eager" or options.member_id is None:
                member.release(set(member.revoking))
            self._grant(now_ms)
        return member

    def heartbeat(self, member_id: str, generation: int | None, now_ms: int, *, is_busy: bool = False) -> Member:
        """A heartbeat. An older generation is fine: the member gets the new one with the response.

        A member that is still busy with a message of a partition that it must give up gets the time it needs.
        """
        member = self.member(member_id)
        if generation is not None and generation > self.generation:
            raise GenerationMismatch(generation=generation, current=self.generation)
        member.heard(now_ms)
        if is_busy and member.revoking:
            member.revocation_deadline_ms = now_ms + REVOCATION_MS
        return member

    def disconnected(self, member_id: str, now_ms: int) -> None:
        """The connection of a member broke: the process has ended, or will reconnect soon."""
        member = self.members.get(member_id)
        if member is not None:
            member.disconnected_at_ms = now_ms

    def continue_sessions(self, draft: "Membership") -> None:
        """The same membership as it was while it was written: members were heard of meanwhile."""
        for member in self.members.values():
            if (same := draft.members.get(member.id)) is not None:
                member.continue_session(same)

    def revoked(self, member_id: str, partitions: set[TopicPartition], now_ms: int) -> bool:
        """The member has given these up. Returns whether anything changed."""
        member = self.member(member_id)
        released = partitions & member.revoking
        if not released:
            return False
        member.release(released)
        self._grant(now_ms)
        return True

    def leave(self, member_id: str, topics: Topics, now_ms: int) -> None:
        del self.members[self.member(member_id).id]
        self.rebalance(topics, now_ms)

    def check_owner(self, member_id: str, generation: int | None, partition: TopicPartition) -> None:
        """Whether a member may commit: only what it owns, and only in the current generation if it names one."""
        member = self.member(member_id)
        if generation is not None and generation != self.generation:
            raise GenerationMismatch(generation=generation, current=self.generation)
        if partition not in member.owned:
            raise MemberFenced(
                f"member {member_id} does not own partition {partition.partition}; another one does, or none yet"
            )

    def member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is not None:
            return member
        if member_id in self.fenced:
            raise MemberFenced(member=member_id)
        raise MemberNotFound(member=member_id)

    def asks_for(self, topic: str) -> bool:
        """Whether a member subscribes to a topic of this name."""
        return any(
            topic in member.subscription.topics
            or (member.subscription.pattern is not None and topic in matching(member.subscription.pattern, [topic]))
            for member in self.members.values()
        )

    # what time and topics do

    def restarted(self, now_ms: int) -> None:
        """Starts all sessions again after a restart: no time counts while the broker was down."""
        for member in self.members.values():
            member.heartbeat_at_ms, member.disconnected_at_ms = now_ms, None
            if member.revocation_deadline_ms is not None:
                member.revocation_deadline_ms = now_ms + REVOCATION_MS
        if self.stats.began_at_ms is not None:
            self.stats.began_at_ms = now_ms
        self.stats.ended_at_ms = min(self.stats.ended_at_ms, now_ms)

    def expire(self, topics: Topics, now_ms: int) -> list[str]:
        """Removes members that were silent for too long or did not give up partitions in time; returns their ids."""
        silent = [member for member in self.members.values() if member.silent_at_ms < now_ms]
        holding = [
            member
            for member in self.members.values()
            if member.revocation_deadline_ms is not None and member.revocation_deadline_ms < now_ms
        ]
        gone = {member.id for member in (*silent, *holding)}
        if gone:
            self.stats.revocation_timeouts += len(holding)
            self.stats.failed += bool(holding)
            for member_id in gone:
                del self.members[member_id]
            self.fenced = [*self.fenced, *sorted(gone)][-FENCED_REMEMBERED:]
            self.rebalance(topics, now_ms)
        return sorted(gone)

    def next_deadline_ms(self) -> int | None:
        """When `expire` may have something to do."""
        deadlines = [m.silent_at_ms for m in self.members.values()]
        deadlines += [m.revocation_deadline_ms for m in self.members.values() if m.revocation_deadline_ms is not None]
        return min(deadlines, default=None)

    def rebalance(self, topics: Topics, now_ms: int) -> None:
        """Computes the target again, in a new generation."""
        subscriptions = {m.id: topic_ids(m.subscription, topics) for m in self.members.values()}
        counts = {topic.id: topic.partitions for topic in topics.values()}
        current = {member.id: member.owned for member in self.members.values()}
        target = ASSIGNORS[self.assignor](subscriptions, counts, current)
        self.generation += 1
        self.stats.total += 1
        if self.stats.began_at_ms is None:
            self.stats.began_at_ms = now_ms
        for member in self.members.values():
            member.target = target[member.id]
            keeps = member.target if self.protocol == "cooperative" else set()
            member.revoking = member.owned - keeps
            member.revocation_deadline_ms = now_ms + REVOCATION_MS if member.revoking else None
        self._grant(now_ms)

    def covers(self, topics: Topics) -> bool:
        """Whether its targets are the partitions that its members subscribe to."""
        subscribed = set[TopicSize]().union(*(_matched(m.subscription, topics) for m in self.members.values()))
        wanted = {TopicPartition(topic.id, number) for topic in subscribed for number in range(topic.partitions)}
        return wanted == set().union(*(member.target for member in self.members.values()))

    def topics_changed(self, topics: Topics, now_ms: int) -> bool:
        """New topics, added partitions, deleted topics: starts a new generation if the group subscribes to them."""
        if self.covers(topics):
            return False
        sizes = {topic.id: topic.partitions for topic in topics.values()}
        for member in self.members.values():
            member.release({part for part in member.owned if part.partition >= sizes.get(part.topic_id, 0)})
        self.rebalance(topics, now_ms)
        return True

    def _returning(
        self, subscription: Subscription, member_id: str | None, new_id: Callable[[], str]
    ) -> Member | None:
        if member_id is not None:
            return self.member(member_id)
        if subscription.instance_id is None:
            return None
        for member in self.members.values():
            if member.subscription.instance_id == subscription.instance_id:
                del self.members[member.id]
                self.fenced = [*self.fenced, member.id][-FENCED_REMEMBERED:]
                member.id = new_id()
                self.members[member.id] = member
                return member
        return None

    def _grant(self, now_ms: int) -> None:
        """Gives partitions that nobody owns to the members that they are meant for."""
        taken = {partition for member in self.members.values() for partition in member.owned}
        if self.protocol == "eager" and any(member.revoking for member in self.members.values()):
            return
        for member in self.members.values():
            received = {partition for partition in member.target - member.owned if partition not in taken}
            member.owned |= received
            self.stats.partitions_moved += len(received)
        if self.state != "rebalancing" and self.stats.began_at_ms is not None:
            self.stats.successful += 1
            self.stats.last_duration_ms = now_ms - self.stats.began_at_ms
            self.stats.total_duration_ms += self.stats.last_duration_ms
            self.stats.began_at_ms, self.stats.ended_at_ms = None, now_ms


def topic_ids(subscription: Subscription, topics: Topics) -> frozenset[int]:
    """The topics that a subscription matches now."""
    return frozenset(topic.id for topic in _matched(subscription, topics))


def _matched(subscription: Subscription, topics: Topics) -> set[TopicSize]:
    chosen = {topics[name] for name in subscription.topics if name in topics}
    if subscription.pattern is not None:
        chosen |= {topics[name] for name in matching(subscription.pattern, topics)}
    return chosen
