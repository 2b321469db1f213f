"""Members that join again, and what rebalances are counted as."""

from itertools import count

from quiver.model.topic import TopicSize
from quiver.streams.member import RECONNECT_MS, SESSION_MS, Subscription
from quiver.streams.membership import JoinOptions, JoinRequest, Membership, Protocol, RebalanceStats

TOPICS = {"orders": TopicSize(1, 6), "emails": TopicSize(2, 3)}


class Scene:
    def __init__(self, protocol: Protocol) -> None:
        self.group, self.protocol, self.numbers = Membership(), protocol, count(1)

    def join(
        self,
        member_id: str | None = None,
        topic: str = "orders",
        now_ms: int = 0,
        instance_id: str | None = None,
        session_ms: int = SESSION_MS,
    ) -> str:
        subscription = Subscription(
            client_id="c", topics=frozenset({topic}), instance_id=instance_id, session_ms=session_ms
        )
        return self.group.join(
            JoinRequest(subscription, JoinOptions(member_id, self.protocol)),
            TOPICS,
            now_ms,
            new_id=lambda: f"m{next(self.numbers)}",
            joined_at_ms=now_ms,
        ).id


def test_a_cooperative_member_that_joins_again_has_not_let_go() -> None:
    scene = Scene("cooperative")
    first, second = scene.join(), scene.join()
    asked = set(scene.group.members[first].revoking)
    scene.join(first)
    assert scene.group.members[first].revoking == asked
    assert scene.group.members[second].owned == set()


def test_an_eager_member_that_joins_again_has_let_go_also_with_other_topics() -> None:
    scene = Scene("eager")
    first = scene.join()
    scene.join(first, "emails")
    assert len(scene.group.members[first].assigned) == 3
    second = scene.join()
    scene.join(first, "orders")
    assert scene.group.state == "stable"
    assert [len(scene.group.members[member].assigned) for member in (first, second)] == [3, 3]


def test_the_time_without_members_is_no_rebalance() -> None:
    scene = Scene("eager")
    first = scene.join(now_ms=0)
    scene.group.leave(first, TOPICS, 1_000)
    scene.join(now_ms=50_000)
    stats = scene.group.stats
    assert (stats.total, stats.successful, stats.last_duration_ms) == (3, 3, 0)


def test_statistics_of_many_groups_together() -> None:
    parts = [
        RebalanceStats(total=3, successful=2, failed=1, last_duration_ms=5, total_duration_ms=9, ended_at_ms=20),
        RebalanceStats(total=1, successful=1, last_duration_ms=3, total_duration_ms=3, ended_at_ms=10),
    ]
    together = RebalanceStats.together(parts)
    assert (together.total, together.successful, together.failed) == (4, 3, 1)
    assert (together.last_duration_ms, together.average_duration_ms) == (5, 4)
    assert RebalanceStats.together([]) == RebalanceStats()


def test_a_member_whose_connection_broke_is_put_out_sooner() -> None:
    scene = Scene("cooperative")
    first, second = scene.join(), scene.join()
    scene.group.heartbeat(second, None, 5_000)
    scene.group.disconnected(first, 5_000)
    assert scene.group.next_deadline_ms() == 5_000 + RECONNECT_MS
    assert scene.group.expire(TOPICS, 5_000 + RECONNECT_MS) == []
    assert scene.group.expire(TOPICS, 5_001 + RECONNECT_MS) == [first]
    assert len(scene.group.members[second].assigned) == 6


def test_a_member_that_comes_back_keeps_its_partitions_and_its_session() -> None:
    scene = Scene("cooperative")
    member = scene.join()
    scene.group.disconnected(member, 1_000)
    scene.group.heartbeat(member, None, 2_000)
    assert scene.group.next_deadline_ms() == 2_000 + SESSION_MS
    scene.group.disconnected(member, 3_000)
    scene.join(member, now_ms=4_000)
    assert scene.group.next_deadline_ms() == 4_000 + SESSION_MS
    scene.group.disconnected(member, 5_000)
    scene.group.restarted(6_000)
    assert scene.group.next_deadline_ms() == 6_000 + SESSION_MS
    assert (scene.group.generation, len(scene.group.members[member].assigned)) == (1, 6)


def test_a_broken_connection_makes_no_session_longer() -> None:
    scene = Scene("cooperative")
    member = scene.join(session_ms=1_000)
    scene.group.disconnected(member, 900)
    assert scene.group.next_deadline_ms() == 1_000
    scene.group.disconnected("unknown", 900)


def test_an_instance_has_its_whole_session_to_restart() -> None:
    scene = Scene("cooperative")
    first = scene.join(instance_id="worker-1")
    scene.group.disconnected(first, 1_000)
    assert scene.group.next_deadline_ms() == SESSION_MS
    second = scene.join(instance_id="worker-1", now_ms=20_000)
    assert (list(scene.group.members), scene.group.fenced) == ([second], [first])
    assert len(scene.group.members[second].assigned) == 6, "at once"
