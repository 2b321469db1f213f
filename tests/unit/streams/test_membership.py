"""The membership machine: single steps, and a random walk that checks what must always hold."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from quiver.model.errors import GenerationMismatch, GroupProtocolMismatch, MemberFenced, MemberNotFound
from quiver.model.names import TopicPartition
from quiver.model.topic import TopicSize
from quiver.streams.member import REVOCATION_MS, Subscription
from quiver.streams.membership import JoinOptions, JoinRequest, Membership, Topics

ORDERS: Topics = {"orders": TopicSize(1, 6)}
BOTH: Topics = {**ORDERS, "emails": TopicSize(2, 3)}


class Ids:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"m{self.count}"


def wants(*topics: str, **more: object) -> Subscription:
    return Subscription(client_id="c", topics=frozenset(topics), **more)  # type: ignore[arg-type]


def join(group: Membership, ids: Ids, now_ms: int = 0, topics: Topics = ORDERS, **more: object) -> str:
    request = JoinRequest(more.pop("subscription", wants("orders")), JoinOptions(**more))  # type: ignore[arg-type]
    return group.join(request, topics, now_ms, new_id=ids, joined_at_ms=now_ms).id


def let_go(group: Membership, member_id: str, now_ms: int = 0) -> None:
    group.revoked(member_id, set(group.members[member_id].revoking), now_ms)


def owned_count(group: Membership) -> dict[str, int]:
    return {member.id: len(member.owned) for member in group.members.values()}


def test_a_lone_member_has_everything_at_once() -> None:
    group = Membership()
    join(group, Ids())
    assert group.state == "stable"
    assert owned_count(group) == {"m1": 6}


def test_a_second_member_gets_its_share_only_when_the_first_has_let_go() -> None:
    group, ids = Membership(), Ids()
    first, second = join(group, ids), join(group, ids)
    assert group.state == "rebalancing"
    assert len(group.members[first].assigned) == 3
    assert group.members[second].owned == set()
    let_go(group, first)
    assert group.state == "stable"
    assert owned_count(group) == {first: 3, second: 3}


def test_a_third_member_takes_one_from_each_and_the_rest_stays() -> None:
    group, ids = Membership(), Ids()
    first, second = join(group, ids), join(group, ids)
    let_go(group, first)
    before = {m: set(group.members[m].owned) for m in (first, second)}
    join(group, ids)
    for member in (first, second):
        assert len(group.members[member].assigned & before[member]) == 2
        let_go(group, member)
    assert sorted(owned_count(group).values()) == [2, 2, 2]


def test_eager_takes_everything_from_everybody_before_it_gives() -> None:
    group, ids = Membership(), Ids()
    first = join(group, ids, protocol="eager")
    second = join(group, ids, protocol="eager")
    assert group.members[first].assigned == set()
    third = join(group, ids, protocol="eager")
    assert owned_count(group) == {first: 6, second: 0, third: 0}
    join(group, ids, member_id=first, protocol="eager")
    assert owned_count(group) == {first: 2, second: 2, third: 2}
    generation = group.generation
    join(group, ids, member_id=second, protocol="eager")
    assert group.generation == generation


def test_a_group_has_one_protocol_while_it_has_members() -> None:
    group, ids = Membership(), Ids()
    first = join(group, ids)
    with pytest.raises(GroupProtocolMismatch):
        join(group, ids, protocol="eager")
    with pytest.raises(GroupProtocolMismatch):
        join(group, ids, assignor="range")
    group.leave(first, ORDERS, 0)
    join(group, ids, protocol="eager", assignor="range")
    assert (group.protocol, group.assignor) == ("eager", "range")


def test_a_silent_member_is_put_out_and_told_so() -> None:
    group, ids = Membership(), Ids()
    first, second = join(group, ids), join(group, ids)
    let_go(group, first)
    group.heartbeat(second, None, 30_000)
    assert group.expire(ORDERS, 30_000) == []
    assert group.expire(ORDERS, 30_001) == [first]
    assert owned_count(group) == {second: 6}
    with pytest.raises(MemberFenced):
        group.heartbeat(first, None, 30_002)
    with pytest.raises(MemberNotFound):
        group.heartbeat("never-seen", None, 30_002)


def test_a_member_that_does_not_let_go_in_time_is_fenced_even_when_it_beats() -> None:
    group, ids = Membership(), Ids()
    stubborn, waiting = join(group, ids), join(group, ids)
    for now_ms in range(0, REVOCATION_MS + 1, 10_000):
        group.heartbeat(stubborn, None, now_ms)
        group.heartbeat(waiting, None, now_ms)
    assert group.expire(ORDERS, REVOCATION_MS + 1) == [stubborn]
    assert owned_count(group) == {waiting: 6}
    assert group.stats.revocation_timeouts == 1


def test_a_member_that_is_busy_gets_the_time_it_needs() -> None:
    group, ids = Membership(), Ids()
    busy, waiting = join(group, ids), join(group, ids)
    for now_ms in range(0, 3 * REVOCATION_MS, 10_000):
        group.heartbeat(busy, None, now_ms, is_busy=True)
        group.heartbeat(waiting, None, now_ms)
        assert group.expire(ORDERS, now_ms) == []
    let_go(group, busy)
    assert group.state == "stable"


def test_an_instance_that_returns_gets_its_partitions_back_without_a_rebalance() -> None:
    group, ids = Membership(), Ids()
    static = wants("orders", instance_id="box-1")
    first = join(group, ids, subscription=static)
    join(group, ids)
    let_go(group, first)
    before, generation = set(group.members[first].owned), group.generation
    returned = join(group, ids, 20_000, subscription=static)
    assert returned != first
    assert group.members[returned].owned == before
    assert group.generation == generation
    with pytest.raises(MemberFenced):
        group.heartbeat(first, None, 20_000)


def test_generations_fence_commits() -> None:
    group, ids = Membership(), Ids()
    first = join(group, ids)
    mine = next(iter(group.members[first].owned))
    group.check_owner(first, 1, mine)
    group.check_owner(first, None, mine)
    join(group, ids)
    with pytest.raises(GenerationMismatch):
        group.check_owner(first, 1, mine)
    with pytest.raises(GenerationMismatch):
        group.heartbeat(first, 99, 0)
    let_go(group, first)
    gone = next(iter({TopicPartition(1, n) for n in range(6)} - group.members[first].owned))
    with pytest.raises(MemberFenced):
        group.check_owner(first, None, gone)


def test_new_partitions_new_topics_and_deleted_topics_reach_the_group() -> None:
    group, ids = Membership(), Ids()
    member = join(group, ids, subscription=wants(pattern="orders|em.*"))
    assert not group.topics_changed(ORDERS, 0)
    assert group.topics_changed({"orders": TopicSize(1, 8)}, 0)
    assert len(group.members[member].owned) == 8
    assert group.topics_changed(BOTH | {"orders": TopicSize(1, 8)}, 0)
    assert len(group.members[member].owned) == 11
    assert group.topics_changed({"emails": TopicSize(2, 3)}, 0)
    assert group.members[member].owned == {TopicPartition(2, n) for n in range(3)}


def test_a_restart_gives_everybody_their_time_again() -> None:
    group = Membership()
    member = join(group, Ids())
    group = msgspec.json.decode(msgspec.json.encode(group), type=Membership)
    group.restarted(1_000_000)
    assert group.expire(ORDERS, 1_020_000) == []
    assert len(group.members[member].owned) == 6


class RandomWalk(RuleBasedStateMachine):
    """Members come, go, fall silent and let go late; topics grow. One owner a partition, always."""

    def __init__(self) -> None:
        super().__init__()
        self.group, self.ids, self.now_ms, self.topics = Membership(), Ids(), 0, dict(BOTH)
        self.generations = [0]
        self.protocol = "cooperative"

    @initialize(protocol=st.sampled_from(["cooperative", "eager"]))
    def choose(self, protocol: str) -> None:
        self.protocol = protocol

    def some_member(self, data: st.DataObject) -> str | None:
        members = sorted(self.group.members)
        return data.draw(st.sampled_from(members)) if members else None

    @rule(topics=st.sets(st.sampled_from(["orders", "emails"]), min_size=1))
    def join(self, topics: set[str]) -> None:
        if len(self.group.members) < 6:
            join(self.group, self.ids, self.now_ms, self.topics, subscription=wants(*topics), protocol=self.protocol)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if (member := self.some_member(data)) is not None:
            self.group.leave(member, self.topics, self.now_ms)

    @rule(data=st.data())
    def release_some(self, data: st.DataObject) -> None:
        if (member := self.some_member(data)) is not None:
            revoking = sorted(self.group.members[member].revoking)
            some = data.draw(st.sets(st.sampled_from(revoking))) if revoking else set()
            self.group.revoked(member, some, self.now_ms)

    @rule(milliseconds=st.integers(1, 40_000), data=st.data())
    def time_passes(self, milliseconds: int, data: st.DataObject) -> None:
        self.now_ms += milliseconds
        for member in list(self.group.members):
            if data.draw(st.booleans()):
                self.group.heartbeat(member, None, self.now_ms)
        self.group.expire(self.topics, self.now_ms)

    @rule(more=st.integers(1, 3))
    def grow(self, more: int) -> None:
        old = self.topics["emails"].partitions
        if old < 12:
            self.topics["emails"] = TopicSize(2, old + more)
            self.group.topics_changed(self.topics, self.now_ms)

    @rule()
    def restart(self) -> None:
        self.group = msgspec.json.decode(msgspec.json.encode(self.group), type=Membership)
        self.group.restarted(self.now_ms)

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """When everybody lets go, the group comes to rest with every wanted partition owned."""
        for member in list(self.group.members):
            let_go(self.group, member, self.now_ms)
        if self.group.members:
            assert self.group.state == "stable"
            subscribed = set().union(*(m.subscription.topics for m in self.group.members.values()))
            wanted = {
                TopicPartition(topic.id, n)
                for name, topic in self.topics.items()
                if name in subscribed
                for n in range(topic.partitions)
            }
            assert set().union(*(m.owned for m in self.group.members.values())) == wanted

    @invariant()
    def one_owner_a_partition(self) -> None:
        owned = [partition for member in self.group.members.values() for partition in member.owned]
        assert len(owned) == len(set(owned))

    @invariant()
    def generations_never_repeat(self) -> None:
        assert self.group.generation >= self.generations[-1]
        self.generations.append(self.group.generation)

    @invariant()
    def nobody_reads_what_it_must_let_go_of(self) -> None:
        for member in self.group.members.values():
            assert member.revoking <= member.owned
            assert not member.assigned & member.revoking


TestRandomWalk = RandomWalk.TestCase
