"""What a distributed writer needs of the SDK: prepared transactions, taken-over ids, stored frames."""

import itertools

import pyarrow as pa
import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest, OffsetOutOfRange, ProducerFenced, TransactionNotFound
from quiver.records.read import open_frame

_NUMBERS = itertools.count()


@pytest.fixture
def q(shared_broker: BrokerProcess):
    with quiver.connect(shared_broker.address, client_id="test-writer", lazy=True) as client:
        yield client


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=1)


def frames_of(q, topic: str, isolation: str = "read_committed") -> list[list[bytes | None]]:
    fetched = q.frames.fetch(q.topics.describe(topic).id, 0, 0, isolation=isolation)
    return [
        open_frame(fetched.buffer[position : position + header.frame_bytes]).values()
        for position, header, is_visible in fetched.headers()
        if is_visible or (isolation == "read_uncommitted" and not header.is_control)
    ]


def test_tasks_write_in_batches_of_their_own_size_and_the_driver_commits_them(q, topic):
    rows = pa.table({"value": [b"x" * 1000] * 100})
    task = q.transactional("writer/0", batch_bytes="10KiB", compression="zstd", delivery_timeout="3m")
    with task.begin() as transaction:
        transaction.send_arrow(topic, rows, partition=0)
        transaction.flush()
        key = transaction.detach()
    task.close()
    assert frames_of(q, topic) == []
    assert {len(frame) for frame in frames_of(q, topic, "read_uncommitted")} == {10}
    assert q.commit_transactions([key], key="writer/batch/0")
    assert sum(map(len, frames_of(q, topic))) == 100


def test_an_id_can_be_used_again_after_its_producer_was_closed(q, topic):
    for number in range(3):
        task = q.transactional("writer/again")
        with task.begin() as transaction:
            transaction.publish(topic, b"%d" % number)
        task.close()
    assert [value for frame in frames_of(q, topic) for value in frame] == [b"0", b"1", b"2"]


def test_taking_an_id_over_fences_its_producer_and_raises_its_epoch(q, topic):
    task = q.transactional("writer/late")
    transaction = task.begin()
    transaction.publish(topic, b"late")
    transaction.flush()
    before = q.transactions.describe("writer/late").epoch
    key = q.transactions.init("writer/late")
    assert key.epoch > before
    with pytest.raises(ProducerFenced):
        transaction.commit()
    task.close()
    assert frames_of(q, topic) == []
    assert q.commit_transactions([key], key="writer/empty")
    assert not q.commit_transactions([key], key="writer/empty")
    with pytest.raises(TransactionNotFound):
        q.transactions.describe("writer/nobody")


def test_frames_are_fetched_by_topic_id(q, topic):
    q.publish(topic, b"a")
    q.publish(topic, b"b")
    topic_id = q.topics.describe(topic).id
    assert q.frames.offsets(topic_id, {0: "earliest"}) == {0: 0}
    assert q.frames.offsets(topic_id, {0: "latest"}) == {0: 2}
    fetched = q.frames.begin_fetch(topic_id, 0, 1, max_wait="100ms").result(10)
    assert [header.base_offset for _, header, _ in fetched.headers()] == [1]
    assert fetched.readable_end() == fetched.high_watermark == 2
    with pytest.raises(OffsetOutOfRange):
        q.frames.fetch(topic_id, 0, 99)


def test_options_that_cannot_be(q):
    with pytest.raises(InvalidRequest, match="compression"):
        q.transactional("writer/0", compression="best")
    with pytest.raises(InvalidRequest, match="batch_bytes"):
        q.transactional("writer/0", batch_bytes=0)
