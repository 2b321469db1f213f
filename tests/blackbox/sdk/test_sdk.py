"""The SDK against the shipped broker."""

import asyncio
from collections import defaultdict

import pyarrow as pa
import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess, free_port
from quiver.model.errors import (
    InvalidName,
    InvalidSetting,
    MessageTooLarge,
    PartitionNotFound,
    TopicExists,
    TopicNotFound,
)


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=3, durability="interval")


def test_topics_are_administered(q, topic):
    assert topic in q.topics.list()
    described = q.topics.describe(topic)
    assert (described.name, described.settings["partitions"], described.offsets) == (topic, 3, [(0, 0)] * 3)
    assert q.topics.alter(topic, retention="2h").settings["retention"] == "2h"
    assert q.topics.add_partitions(topic, 5).settings["partitions"] == 5
    q.publish(topic, b"x", partition=4)
    q.topics.purge(topic)
    assert list(q.read(topic, end="latest")) == []
    assert q.publish(topic, b"y", partition=4).offset == 1
    q.topics.delete(topic)
    assert topic not in q.topics.list()
    with pytest.raises(TopicNotFound):
        q.topics.describe(topic)


def test_errors_are_those_of_the_catalogue(q, topic):
    with pytest.raises(TopicExists):
        q.topics.create(topic)
    with pytest.raises(InvalidName):
        q.topics.create("a/b")
    with pytest.raises(InvalidSetting, match="colour"):
        q.topics.create("fine", colour="red")
    with pytest.raises(TopicNotFound):
        q.publish("nowhere", b"x")
    with pytest.raises(PartitionNotFound):
        q.publish(topic, b"x", partition=3)
    with pytest.raises(MessageTooLarge):
        q.publish(topic, b"x" * (1 << 20 | 1))
    assert q.publish(topic, b"still fine").topic == topic


def test_a_recreated_topic_is_published_to(q, topic):
    q.publish(topic, b"old")
    q.topics.delete(topic)
    q.topics.create(topic, partitions=1)
    assert q.publish(topic, b"new").offset == 0
    assert [message.value for message in q.read(topic, end="latest")] == [b"new"]


@pytest.mark.parametrize("durability", ["fsync", "interval", "memory"])
@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_everything_sent_is_read_in_order(q, durability, compression):
    topic = f"t-{durability}-{compression}"
    q.topics.create(topic, durability=durability)
    with q.producer(topic, compression=compression, batch_bytes=20_000) as out:
        for n in range(5_000):
            out.send(b"%d" % n, key=f"k{n % 17}")
        out.send_many([b"%d" % n for n in range(5_000, 10_000)], keys=[f"k{n % 17}" for n in range(5_000, 10_000)])
    by_key = defaultdict(list)
    for message in q.read(topic, end="latest"):
        by_key[message.key].append(int(message.value))
    assert sum(map(len, by_key.values())) == 10_000
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_send_futures_tell_the_truth(q, topic):
    with q.producer(topic) as out:
        futures = {b"%d" % n: out.send(b"%d" % n, key=b"%d" % (n % 50)) for n in range(2_000)}
    stored = {(m.partition, m.offset): m.value for m in q.read(topic, end="latest")}
    for value, future in futures.items():
        _, partition, offset = future.result()
        assert stored[partition, offset] == value


def test_arrow_goes_in_and_comes_out(q, topic):
    table = pa.table(
        {
            "value": pa.array([b"%d" % n for n in range(50_000)], pa.binary()),
            "key": pa.array([b"%d" % (n % 100) for n in range(50_000)], pa.binary()),
            "timestamp": pa.array(range(50_000), pa.int64()),
        }
    )
    with q.producer(topic) as out:
        assert sum(span.message_count for span in out.send_arrow(table).result(30)) == 50_000
    read = pa.Table.from_batches(q.read(topic, end="latest").batches())
    assert sorted(read["value"].to_pylist()) == sorted(table["value"].to_pylist())
    assert sorted(read["timestamp"].cast(pa.int64()).to_pylist()) == list(range(50_000))
    assert q.read(topic, end="latest").batches().__next__().schema == read.schema


def test_positions_by_offset_and_time(q, topic):
    places = [q.publish(topic, b"%d" % n, partition=0) for n in range(10)]
    assert q.offsets(topic) == {0: 10, 1: 0, 2: 0}
    assert q.offsets(topic, "earliest", [0]) == {0: 0}
    assert [m.offset for m in q.read(topic, start=places[4].offset, end=8, partitions=0)] == [4, 5, 6, 7]
    times = [m.append_time for m in q.read(topic, end="latest")]
    later = [n for n, time in enumerate(times) if time >= times[5]]
    found = q.offsets(topic, pa.scalar(times[5], pa.timestamp("ms", "UTC")).as_py(), [0])
    assert found == {0: later[0]}
    assert [m.offset for m in q.read(topic, start="-1h", end="latest")] == list(range(10))


def test_a_reader_that_has_come_to_its_end_says_where_to_go_on(q, topic):
    with q.producer(topic) as out:
        out.send_many([b"%d" % n for n in range(10)], partition=0)
        out.flush()
        out.send(b"10", partition=0).result(10)
    with q.read(topic, end=4, partitions=0) as reader:
        assert [m.offset for m in reader] == [0, 1, 2, 3]
    assert reader.positions == {0: 4}
    assert [m.offset for m in q.read(topic, start=reader.positions, end="latest", partitions=0)] == list(range(4, 11))


def test_added_partitions_are_used_by_a_running_producer(q, topic):
    with q.producer(topic) as out:
        out.send(b"first", key="a").result(10)
        q.topics.add_partitions(topic, 8)
        futures = [out.send(b"%d" % n, key=f"k{n}") for n in range(1000)]
        used = {future.result(10).partition for future in futures}
    assert used == set(range(8))
    assert sum(1 for _ in q.read(topic, end="latest")) == 1001


def test_a_reader_follows_what_is_published(q, topic):
    with q.read(topic, start="latest") as reader:
        for n in range(50):
            q.publish(topic, b"%d" % n)
            assert next(iter(reader)).value == b"%d" % n


async def test_the_asynchronous_twin(shared_broker: BrokerProcess):
    async with quiver.connect_async(shared_broker.address) as q:
        await q.topics.create("async-twin", partitions=2)
        await asyncio.gather(*(q.publish("async-twin", {"n": n}, key=f"{n}") for n in range(100)))
        async with q.producer("async-twin") as out:
            futures = [await out.send(b"%d" % n) for n in range(1000)]
            await out.send_many([b"x"] * 1000)
            assert all([(await future.result(10)).offset >= 0 for future in futures])
        assert len([message async for message in q.read("async-twin", end="latest")]) == 2100


def test_a_restart_is_lived_through(start_broker):
    port = free_port()
    broker = start_broker("--native-port", str(port))
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
        reader = q.read("orders")
        got = []
        with q.producer("orders", linger="1ms", batch_messages=100) as out:
            for n in range(3000):
                out.send(b"%d" % n, partition=0)
                if n in (1000, 2000):
                    (broker.kill if n == 1000 else broker.terminate)()
                    broker.start()
        got += [next(iter(reader)) for _ in range(3000)]
    assert [message.value for message in got] == [b"%d" % n for n in range(3000)]
    assert [message.offset for message in got] == list(range(3000))


def test_a_reader_of_many_partitions_takes_turns(q):
    """An answer has room for a few partitions: those that are left out come first in the next one."""
    wide = new_topic(q, partitions=12, durability="interval")
    with q.producer(wide) as out:
        for _ in range(3):
            for number in range(12):
                out.send_many([bytes(100)] * 700, partition=number)
    with q.read(wide, end="latest", max_bytes="64KiB") as reader:
        order = [batch["partition"][0].as_py() for batch in reader.batches()]
    assert len(order) == 36
    assert sorted(order[:12]) == list(range(12))
