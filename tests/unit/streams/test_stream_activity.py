from quiver.model.names import TopicPartition
from quiver.streams.events import Committed, MembershipChanged, OffsetsCommitted
from quiver.streams.membership import Membership, RebalanceStats
from quiver.streams.stats.activity import StreamActivity


class Group:
    """Membership records of one group, one after the other."""

    def __init__(self) -> None:
        self.activity = StreamActivity()
        self.total = self.successful = 0

    def changed(self, *members: str, ended: bool = False) -> None:
        self.total += 1
        self.successful += ended
        stats = RebalanceStats(total=self.total, successful=self.successful, last_duration_ms=20)
        membership = Membership(members=dict.fromkeys(members), stats=stats)  # type: ignore[arg-type]
        self.activity.applied(MembershipChanged(1, membership, 0))


def test_reasons_come_from_who_is_new_and_who_is_gone() -> None:
    group = Group()
    group.activity.is_live = True
    group.changed("a")
    group.changed("a", "b", ended=True)
    group.changed("b")
    group.changed("b", ended=True)
    assert group.activity.rebalances == {(1, "join"): 2, (1, "leave"): 1, (1, "topics"): 1}
    assert group.activity.rebalance_seconds.count == 2


def test_records_of_the_start_do_not_count() -> None:
    group = Group()
    commit = OffsetsCommitted(1, [(TopicPartition(1, 0), Committed(5, at_ms=0))])
    group.changed("a")
    group.activity.applied(commit)
    group.activity.is_live = True
    group.changed("a", "b")
    group.activity.applied(commit)
    assert group.activity.rebalances == {(1, "join"): 1}
    assert group.activity.commits == {1: 1}


def test_a_deleted_group_leaves_nothing() -> None:
    group = Group()
    group.activity.is_live = True
    group.changed("a")
    group.activity.applied(OffsetsCommitted(1, [(TopicPartition(1, 0), Committed(5, at_ms=0))]))
    group.activity.forget(1)
    assert not group.activity.commits
    assert not group.activity.rebalances
