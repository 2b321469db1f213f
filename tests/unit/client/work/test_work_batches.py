"""Jobs in batches: Arrow columns, settled as one, but for what was settled by itself."""

from collections.abc import Iterator

import pytest

import quiver
from quiver.client import Client, JobBatch
from quiver.model.errors import LeaseLost
from quiver.model.settlement import ACK, NACK, REJECT
from unit.client.fake_queue_broker import FakeQueueBroker


def test_a_batch_has_columns_jobs_and_a_length(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b", keys=[b"k"])
    broker.add(b"c", level=0)
    with q.work("jobs", group="g", prefetch=3) as work:
        batch = work.next_batch()
        assert len(batch) == 3
        table = batch.table
        assert table.column_names == [
            "topic", "partition", "offset", "timestamp", "append_time", "key", "value", "headers", "priority",
            "attempt",
        ]  # fmt: skip
        assert table.column("value").to_pylist() == [b"c", b"a", b"b"]
        assert table.column("priority").to_pylist() == ["critical", "normal", "normal"]
        assert table.column("attempt").to_pylist() == [1, 1, 1]
        assert batch.batch.to_pydict() == table.to_pydict()
        assert [job.value for job in batch] == [b"c", b"a", b"b"]
        assert [job.key for job in batch] == [None, b"k", None]
        batch.ack()
    assert sorted(broker.state_of("done")) == [b"a", b"b", b"c"]


def test_batches_have_at_most_max_messages_and_gather_several_runs(broker: FakeQueueBroker, q: Client):
    broker.add(*[b"%d" % n for n in range(250)])
    sizes = []
    with q.work("jobs", group="g", max_messages=100, prefetch=250) as work:
        for batch in work.batches():
            with batch:
                sizes.append(len(batch))
            if sum(sizes) == 250:
                break
    assert max(sizes) <= 100
    assert len(broker.state_of("done")) == 250
    assert len(broker.parts(ACK)) <= len(sizes)


def batch_of_three(broker: FakeQueueBroker, q: Client) -> Iterator[JobBatch]:
    broker.add(b"a", b"b", b"c")
    with q.work("jobs", group="g", prefetch=3) as work:
        yield from work.batches()


def test_what_was_settled_by_itself_is_left_out(broker: FakeQueueBroker, q: Client):
    for batch in batch_of_three(broker, q):
        with batch:
            for job in batch:
                if job.value == b"b":
                    job.reject("bad")
        break
    assert broker.parts(REJECT)[0].runs == [(1, 2)]
    assert broker.parts(ACK)[0].runs == [(0, 1), (2, 3)]


def test_an_exception_gives_all_of_it_back(broker: FakeQueueBroker, q: Client):
    def fail() -> None:
        for batch in batch_of_three(broker, q):
            with batch:
                raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert broker.parts(NACK)[0].runs == [(0, 3)]
    assert broker.parts(NACK)[0].reason == "ValueError: broken"


def test_reject_gives_all_of_it_up(broker: FakeQueueBroker, q: Client):
    for batch in batch_of_three(broker, q):
        with batch:
            raise quiver.Reject("never")
        break
    assert broker.state_of("dead") == [b"a", b"b", b"c"]


def test_by_hand(broker: FakeQueueBroker, q: Client):
    for batch in batch_of_three(broker, q):
        batch.nack(delay="1m", error="later")
        with pytest.raises(LeaseLost):
            batch.ack()
        assert all(job.is_settled for job in batch)
        break
    part = broker.parts(NACK)[0]
    assert (part.delay_ms, part.reason, part.runs) == (60_000, "later", [(0, 3)])
    assert broker.parts(ACK) == []


def test_a_part_that_was_lost_is_told_and_the_rest_is_settled(broker: FakeQueueBroker, q: Client):
    for batch in batch_of_three(broker, q):
        broker.messages[1].lease = -1
        with pytest.raises(LeaseLost, match="offset 1"):
            batch.ack()
        break
    assert broker.state_of("done") == [b"a", b"c"]
