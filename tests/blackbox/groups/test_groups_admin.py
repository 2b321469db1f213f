"""Groups from outside: lag, resets, settings and deletion."""

import uuid
from itertools import islice

import pytest

from blackbox.groups.group_member import SECONDS
from blackbox.processes.broker_process import wait_until
from quiver.model.errors import GroupNotEmpty, GroupNotFound, InvalidRequest, InvalidSetting, TopicNotFound


@pytest.fixture
def topic(q) -> str:
    """Ten messages in partition 0, none in partition 1."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    q.topics.create(name, partitions=2, durability="interval")
    for n in range(10):
        q.publish(name, b"%d" % n, partition=0)
    return name


@pytest.fixture
def group(q, topic: str) -> str:
    """A group without members that has read four of them."""
    with q.stream(topic, group=f"g-{topic}") as stream:
        assert len(list(islice(stream, 4))) == 4
    return f"g-{topic}"


def position(q, group: str) -> dict[int, int | None]:
    return {part.partition: part.committed for part in q.groups.describe(group).partitions}


def test_a_group_is_described_with_its_members_and_its_lag(q, topic):
    with q.stream(topic, group=f"g-{topic}", client_id="web", auto_commit=False) as stream:
        list(islice(stream, 4))
        stream.commit()
        found = q.groups.describe(f"g-{topic}")
        assert (found.state, found.protocol, found.assignor) == ("stable", "cooperative", "sticky")
        (member,) = found.members
        assert (member.id, member.client_id) == (stream.member_id, "web")
        assert member.partitions == [(topic, 0), (topic, 1)]
        first, second = found.partitions
        assert (first.topic, first.partition, first.committed, first.end_offset, first.lag) == (topic, 0, 4, 10, 6)
        assert (second.partition, second.committed, second.lag, second.lag_ms) == (1, None, 0, 0)
        assert first.owner == stream.member_id
    assert q.groups.describe(f"g-{topic}").state == "empty"


def test_lag_in_time_is_the_age_of_the_oldest_message_that_is_not_committed(q, topic, group):
    ages = {message.offset: message.append_time for message in q.read(topic, end="latest")}

    def lag_ms() -> int:
        return q.groups.describe(group).partitions[0].lag_ms

    first = lag_ms()
    wait_until(lambda: lag_ms() > first, SECONDS, "a lag that grows while nobody reads")
    with q.stream(topic, group=group) as stream:
        list(islice(stream, 6))
    assert lag_ms() == 0
    q.groups.reset(group, topic, "earliest")
    earliest_lag = lag_ms()
    q.groups.reset(group, topic, 9)
    assert earliest_lag >= ages[9] - ages[0]


def test_groups_are_listed_with_their_lag(q, topic, group):
    (found,) = [summary for summary in q.groups.list() if summary.id == group]
    assert (found.kind, found.state, found.members, found.topics, found.lag) == ("stream", "empty", 0, [topic], 6)


@pytest.mark.parametrize(
    ("to", "expected"),
    [("earliest", 0), ("latest", 10), (7, 7), (1000, 10), ("-1h", 0), ("2100-01-01T00:00:00Z", 10)],
)
def test_a_reset_moves_the_group_and_a_dry_run_only_says_so(q, topic, group, to, expected):
    planned = q.groups.reset(group, topic, to, dry_run=True)
    assert (planned[0].partition, planned[0].old, planned[0].new) == (0, 4, expected)
    assert position(q, group)[0] == 4
    assert q.groups.reset(group, topic, to) == planned
    assert position(q, group)[0] == expected
    if expected < 10:
        with q.stream(topic, group=group) as stream:
            assert next(iter(stream)).offset == expected


@pytest.mark.parametrize(("shift", "expected"), [(3, 7), (-3, 1), (-100, 0), (100, 10)])
def test_a_reset_by_a_number_of_messages_stays_within_the_log(q, topic, group, shift, expected):
    assert q.groups.reset(group, topic, shift=shift)[0].new == expected
    assert position(q, group)[0] == expected


def test_a_group_with_members_is_not_moved_and_not_deleted(q, topic, group):
    with q.stream(topic, group=group):
        assert q.groups.reset(group, topic, "latest", dry_run=True)[0].new == 10
        with pytest.raises(GroupNotEmpty):
            q.groups.reset(group, topic, "latest")
        with pytest.raises(GroupNotEmpty):
            q.groups.delete(group)
    assert position(q, group)[0] == 4


def test_a_group_follows_a_program_that_keeps_its_position_elsewhere(q, topic, group):
    name = f"follower-{topic}"
    for offset in (3, 7, 5):
        q.groups.commit(name, {topic: {0: offset}})
        assert position(q, name)[0] == offset
    found = q.groups.describe(name)
    assert (found.kind, found.state, found.members, found.partitions[0].lag) == ("stream", "empty", [], 5)
    with pytest.raises(InvalidRequest, match="not between 0 and the log end 10"):
        q.groups.commit(name, {topic: {0: 11}})
    with pytest.raises(TopicNotFound):
        q.groups.commit(name, {"nowhere": {0: 1}})
    with q.stream(topic, group=group), pytest.raises(GroupNotEmpty):
        q.groups.commit(group, {topic: {0: 1}})


def test_a_deleted_group_starts_over(q, topic, group):
    q.groups.delete(group)
    with pytest.raises(GroupNotFound):
        q.groups.describe(group)
    assert group not in {summary.id for summary in q.groups.list()}
    with q.stream(topic, group=group) as stream:
        assert next(iter(stream)).offset == 0


def test_what_is_asked_of_no_group_or_wrongly_is_refused(q, topic, group):
    with pytest.raises(GroupNotFound):
        q.groups.describe("nobody")
    with pytest.raises(GroupNotFound):
        q.groups.delete("nobody")
    with pytest.raises(GroupNotFound):
        q.groups.reset("nobody", topic, "earliest")
    with pytest.raises(TopicNotFound):
        q.groups.reset(group, "nowhere", "earliest")
    with pytest.raises(InvalidRequest):
        q.groups.reset(group, topic)
    with pytest.raises(InvalidRequest):
        q.groups.reset(group, topic, "earliest", shift=1)
    with pytest.raises(TopicNotFound), q.stream("nowhere", group=group):
        pass


def test_the_settings_of_a_group_are_changed(q, group):
    q.groups.alter(group, offsets_retention="30d")
    assert q.groups.describe(group).settings["offsets_retention"] == "30d"
    with pytest.raises(InvalidSetting, match="colour"):
        q.groups.alter(group, colour="red")


def test_a_deleted_topic_takes_the_position_in_it_along(q, topic, group):
    q.topics.delete(topic)
    q.topics.create(topic, partitions=1)
    q.publish(topic, b"again")
    with q.stream(topic, group=group) as stream:
        assert next(iter(stream)).value == b"again"
