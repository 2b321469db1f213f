"""Reading as a member of a group: messages, batches, commits, start positions, pause and seek."""

import gc
import threading
import weakref
from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa
import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.groups.group_member import SECONDS, GroupMember
from blackbox.processes.broker_process import wait_until
from quiver.model.errors import InvalidRequest, OffsetOutOfRange


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=3, durability="interval")


def fill(q, topic: str, count: int, *, first: int = 0, partition: int | None = None, batch: int = 65_536) -> None:
    with q.producer(topic, batch_messages=batch) as out:
        for n in range(first, first + count):
            out.send(b"%d" % n, partition=n % 3 if partition is None else partition)


class HandlerFailed(Exception):
    pass


def fail_at(stream, offset: int) -> None:
    for message in stream:
        if message.offset == offset:
            raise HandlerFailed


def numbers(messages) -> list[int]:
    return [int(message.value) for message in messages]


def committed(q, topic: str, group: str) -> dict[int, int]:
    """By partition, where something is committed."""
    parts = q.groups.describe(group).partitions
    return {part.partition: part.committed for part in parts if part.topic == topic and part.committed is not None}


def test_a_group_reads_every_message_once_and_goes_on_where_it_was(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 300)
    with q.stream(topic, group=group) as stream:
        assert sorted(numbers(islice(stream, 300))) == list(range(300))
    fill(q, topic, 30, first=300)
    with q.stream(topic, group=group) as stream:
        assert sorted(numbers(islice(stream, 30))) == list(range(300, 330))


def test_the_parts_of_a_message_are_there(q, topic):
    place = q.publish(topic, {"id": 7}, key="k", headers={"h": "x"})
    with q.stream(topic, group=f"g-{topic}") as stream:
        message = next(iter(stream))
        assert (message.topic, message.partition, message.offset) == place
        assert (message.key, message.json(), message.headers) == (b"k", {"id": 7}, {"h": b"x"})
        assert stream.assignment == [(topic, 0), (topic, 1), (topic, 2)]
        assert stream.generation >= 1
        assert stream.member_id


def test_batches_are_committed_when_the_next_is_asked_for(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 1000, partition=0, batch=100)
    with q.stream(topic, group=group, auto_commit=False) as stream:
        batches = stream.batches()
        first, second = next(batches), next(batches)
        assert pa.types.is_binary(first.schema.field("value").type)
        assert stream.positions[topic, 0] == first.num_rows
        stream.commit()
        assert committed(q, topic, group)[0] == first.num_rows + second.num_rows
        rest = []
        for batch in stream.batches():
            rest += batch["value"].to_pylist()
            if rest[-1] == b"999":
                break
    assert [int(v) for v in [*first["value"].to_pylist(), *second["value"].to_pylist(), *rest]] == list(range(1000))


def test_a_batch_begins_at_the_committed_message(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 10, partition=0)
    with q.stream(topic, group=group, auto_commit=False) as stream:
        list(islice(stream, 4))[-1].commit()
    with q.stream(topic, group=group) as stream:
        assert next(stream.batches())["offset"].to_pylist() == list(range(4, 10))


def test_messages_and_batches_of_one_stream_do_not_mix(q, topic):
    fill(q, topic, 10, partition=0)
    with q.stream(topic, group=f"g-{topic}") as stream:
        next(iter(stream))
        with pytest.raises(InvalidRequest, match="messages or as batches"):
            next(stream.batches())


def test_progress_is_committed_at_intervals_and_only_what_was_processed(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 5000, partition=0)
    with q.stream(topic, group=group, auto_commit="50ms") as stream:
        messages = iter(stream)
        for offset in (9, 4500):
            while next(messages).offset < offset:
                pass
            wait_until(
                lambda at=offset: committed(q, topic, group).get(0) == at, SECONDS, f"offset {offset} committed"
            )


def test_close_commits_what_was_processed_and_the_message_at_hand_unless_it_failed(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 10, partition=0)
    with pytest.raises(HandlerFailed), q.stream(topic, group=group) as stream:
        fail_at(stream, 3)
    assert committed(q, topic, group)[0] == 3
    with q.stream(topic, group=group) as stream:
        assert next(iter(stream)).offset == 3
    assert committed(q, topic, group)[0] == 4


def test_a_handler_that_fails_without_a_with_block_gets_its_message_again(shared_broker, q, topic):
    group = f"g-{topic}"
    fill(q, topic, 10, partition=0)
    with pytest.raises(HandlerFailed), quiver.connect(shared_broker.address) as other:
        fail_at(other.stream(topic, group=group), 3)
    assert committed(q, topic, group)[0] == 3


def test_without_auto_commit_nothing_is_committed_but_by_hand(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 10, partition=0)
    with q.stream(topic, group=group, auto_commit=False) as stream:
        assert numbers(islice(stream, 10)) == list(range(10))
    assert committed(q, topic, group) == {}
    with q.stream(topic, group=group, auto_commit=False) as stream:
        assert next(iter(stream)).offset == 0
        stream.commit()
    assert committed(q, topic, group) == {0: 1}


def test_a_message_commits_itself_and_all_before_it(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 10, partition=0)
    with q.stream(topic, group=group, auto_commit=False) as stream:
        messages = list(islice(stream, 8))
        messages[5].commit()
        assert committed(q, topic, group)[0] == 6
        messages[2].commit()
        assert committed(q, topic, group)[0] == 6
    with pytest.raises(InvalidRequest, match="read with a group"):
        next(iter(q.read(topic))).commit()


def test_auto_commit_never_falls_behind_a_commit_by_hand(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 100, partition=0)
    with q.stream(topic, group=group, auto_commit="1ms") as stream:
        for message in islice(stream, 50):
            message.commit()
            assert committed(q, topic, group)[0] == message.offset + 1


@pytest.mark.parametrize(("start", "first"), [("earliest", 0), ("latest", 6), (4, 4), ("-1h", 0)])
def test_a_new_group_starts_where_it_says(q, topic, start, first):
    fill(q, topic, 6, partition=0)
    with q.stream(topic, group=f"g-{topic}", start=start) as stream:
        fill(q, topic, 2, first=6, partition=0)
        assert numbers(islice(stream, 8 - first)) == list(range(first, 8))


def test_a_new_group_starts_at_a_time(q, topic):
    fill(q, topic, 3, partition=0)
    later = datetime.fromtimestamp((list(q.read(topic, end="latest"))[-1].append_time + 1) / 1000, UTC)
    wait_until(lambda: datetime.now(UTC) > later, SECONDS, "a later millisecond")
    fill(q, topic, 3, first=3, partition=0)
    with q.stream(topic, group=f"g-{topic}", start=later) as stream:
        assert next(iter(stream)).value == b"3"


def test_start_counts_only_where_the_group_has_no_position(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 3, partition=0)
    with q.stream(topic, group=group, start="latest"):
        pass
    fill(q, topic, 3, first=3, partition=0)
    with q.stream(topic, group=group, start="earliest") as stream:
        assert numbers(islice(stream, 3)) == [3, 4, 5]


def test_a_member_that_joins_later_with_another_start_skips_nothing(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 9)
    with (
        q.stream(topic, group=group, auto_commit=False),
        q.stream(topic, group=group, auto_commit=False, start="latest") as second,
    ):
        messages = numbers(islice(second, 3))
    assert len({n % 3 for n in messages}) == 1
    assert messages == sorted(messages)
    assert messages[0] < 3


def test_start_counts_for_the_topics_of_a_pattern(q, topic):
    fill(q, topic, 3, partition=0)
    with q.stream(pattern=f"{topic}.*", group=f"g-{topic}", start="latest") as stream:
        q.publish(topic, b"new", partition=0)
        assert next(iter(stream)).value == b"new"


def test_a_paused_partition_is_silent_until_it_is_resumed(q, topic):
    fill(q, topic, 200, partition=0)
    fill(q, topic, 50, first=1000, partition=1)
    with q.stream(topic, group=f"g-{topic}") as stream:
        messages = iter(stream)
        seen = [next(messages)]
        while seen[-1].partition != 0 or seen[-1].offset < 20:
            seen.append(next(messages))
        stream.pause(topic, 0)
        q.publish(topic, b"end", partition=1)
        while seen[-1].value != b"end":
            seen.append(next(messages))
            assert seen[-1].partition == 1
        assert (topic, 0) in stream.assignment
        stream.resume(topic, 0)
        rest = numbers(islice(messages, 200 - 21))
    assert rest == list(range(21, 200))
    assert sum(message.partition == 1 for message in seen) == 51


def test_a_pause_that_is_taken_back_at_once_changes_nothing(q, topic):
    fill(q, topic, 2000, partition=0, batch=100)
    with q.stream(topic, group=f"g-{topic}") as stream:
        seen = []
        for message in islice(stream, 2000):
            seen.append(int(message.value))
            if message.offset % 7 == 0:
                stream.pause(topic, 0)
                stream.resume(topic, 0)
    assert seen == list(range(2000))


def test_another_thread_can_pause_and_resume(q, topic):
    fill(q, topic, 20_000, partition=0, batch=500)
    stop = threading.Event()
    with q.stream(topic, group=f"g-{topic}") as stream:

        def disturb() -> None:
            while not stop.is_set():
                stream.pause(topic, 0)
                stream.resume(topic, 0)

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            assert numbers(islice(stream, 20_000)) == list(range(20_000))
        finally:
            stop.set()
            thread.join()


def test_seek_goes_on_elsewhere_and_is_committed(q, topic):
    group = f"g-{topic}"
    fill(q, topic, 100, partition=0, batch=10)
    with q.stream(topic, group=group) as stream:
        messages = iter(stream)
        assert numbers(islice(messages, 15)) == list(range(15))
        stream.seek(topic, 0, 3)
        assert numbers(islice(messages, 3)) == [3, 4, 5]
        stream.seek(topic, 0, 95)
        assert numbers(islice(messages, 2)) == [95, 96]
        stream.seek(topic, 0, 7)
    assert committed(q, topic, group)[0] == 7


def test_seek_when_a_partition_is_assigned(q, topic):
    fill(q, topic, 30)
    calls = []

    def rewind(partitions) -> None:
        calls.append(partitions)
        for name, number in partitions:
            stream.seek(name, number, 9)

    stream = q.stream(topic, group=f"g-{topic}", on_assign=rewind)
    with stream:
        assert sorted(numbers(islice(stream, 3))) == [27, 28, 29]
    assert calls == [[(topic, 0), (topic, 1), (topic, 2)]]


def test_seek_beyond_the_end_is_an_error_that_says_so(q, topic):
    fill(q, topic, 3, partition=0)
    with q.stream(topic, group=f"g-{topic}", auto_commit=False) as stream:
        with pytest.raises(InvalidRequest):
            stream.seek(topic, 0, -1)
        with pytest.raises(InvalidRequest, match="not assigned"):
            stream.seek(topic, 9, 0)
        stream.seek(topic, 0, 1000)
        with pytest.raises(OffsetOutOfRange):
            next(iter(stream))


def test_what_retention_removed_is_counted_and_stepped_over(q, topic):
    fill(q, topic, 10, partition=0)
    with q.stream(topic, group=f"g-{topic}", auto_commit=False) as stream:
        assert next(iter(stream)).offset == 0
        stream.commit()
    q.topics.purge(topic)
    fill(q, topic, 1, first=10, partition=0)
    with q.stream(topic, group=f"g-{topic}") as stream:
        assert next(iter(stream)).offset == 10


def test_two_groups_on_one_topic_do_not_disturb_each_other(shared_broker, q, topic):
    fill(q, topic, 300)
    one, two = f"a-{topic}", f"b-{topic}"
    with GroupMember(shared_broker.address, topic, one) as first:
        with GroupMember(shared_broker.address, topic, two) as second:
            second.wait_for_values(*(b"%d" % n for n in range(300)))
            generation = first.stream.generation
        first.wait_for_values(*(b"%d" % n for n in range(300)))
        assert first.stream.generation == generation
        q.groups.reset(two, topic, "earliest")
        q.groups.delete(two)
        q.publish(topic, b"more")
        first.wait_for_values(b"more")
    assert sorted(map(int, first.values[:-1])) == list(range(300))
    assert sum(part for part in committed(q, topic, one).values()) == 301


def test_closing_from_another_thread_ends_the_reading(shared_broker, topic):
    with GroupMember(shared_broker.address, topic, f"g-{topic}") as member:
        member.wait_for_assignment(0, 1, 2)
    assert member.error is None


def test_what_a_stream_cannot_be_asked_is_said(q, topic):
    for wrong in (
        {"assignor": "best"},
        {"start": "tomorrow"},
        {"auto_commit": "often"},
        {"session_timeout": "1ms"},
        {"pattern": "("},
    ):
        with pytest.raises(InvalidRequest), q.stream(topic, group=f"g-{topic}", **wrong):
            pass
    with pytest.raises(InvalidRequest, match="topics, or a pattern"):
        q.stream(group="g")


def test_a_stream_that_is_left_early_is_freed_and_its_messages_stay(shared_broker, q, topic):
    fill(q, topic, 30)
    with quiver.connect(shared_broker.address) as client:
        with client.stream(topic, group=f"g-{topic}") as stream:
            message = next(iter(stream))
        gone = weakref.ref(stream)
        del stream
    del client
    gc.collect()
    assert gone() is None
    assert message.topic == topic
    with pytest.raises(quiver.QuiverError):
        message.commit()
