"""Consume, transform, produce with the SDK: offsets of streams and acks of jobs as part of transactions."""

import itertools
import threading
from itertools import islice

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.errors import GroupNotEmpty, InvalidRequest, LeaseLost, MemberFenced, PartitionNotFound

_NUMBERS = itertools.count()
SECONDS = 20.0


class Oops(Exception):
    pass


@pytest.fixture
def source(q) -> str:
    name = f"source-{next(_NUMBERS)}"
    q.topics.create(name, partitions=1)
    with q.producer(name) as out:
        out.send_many([b"%d" % number for number in range(10)])
    return name


@pytest.fixture
def target(q, source) -> str:
    q.topics.create(f"{source}-target", partitions=1)
    return f"{source}-target"


def values(q, topic: str) -> list[bytes]:
    return [message.value for message in q.read(topic, end="latest")]


def committed(q, group: str) -> int | None:
    [part] = q.groups.describe(group).partitions
    return part.committed


def depth(q, topic: str) -> tuple[int, int, int]:
    found = q.queues.depth(topic, f"{topic}-group")
    return found.ready, found.leased, found.retrying


# streams


def test_offsets_and_messages_count_together(q, source, target):
    group = f"{source}-group"
    with q.stream(source, group=group, auto_commit=False) as stream:
        for message in islice(stream, 4):
            with q.transaction(group) as tx:
                tx.publish(target, b"from " + message.value)
                tx.commit_offsets(stream)
            assert committed(q, group) == message.offset + 1
    assert values(q, target) == [b"from %d" % number for number in range(4)]
    with q.stream(source, group=group, auto_commit=False) as stream:
        assert next(iter(stream)).value == b"4"


def test_offsets_of_an_aborted_transaction_are_read_again(q, source, target):
    group = f"{source}-group"

    def fail(stream) -> None:
        with q.transaction(group) as tx:
            tx.publish(target, b"never")
            tx.commit_offsets(stream)
            raise Oops

    with q.stream(source, group=group, auto_commit=False) as stream:
        messages = iter(stream)
        assert [next(messages).value for _ in range(3)] == [b"0", b"1", b"2"]
        with q.transaction(group) as tx:
            tx.publish(target, b"good")
            tx.commit_offsets(stream)
        assert [next(messages).value for _ in range(2)] == [b"3", b"4"]
        with pytest.raises(Oops):
            fail(stream)
        assert committed(q, group) == 3
        stream.rewind()
        assert next(messages).value == b"3"
        stream.commit()
        next(messages)
        stream.rewind()
        assert next(messages).value == b"4"
    assert values(q, target) == [b"good"]


def test_batches_of_a_stream(q, source, target):
    group = f"{source}-group"
    with q.stream(source, group=group, auto_commit=False) as stream:
        batch = next(iter(stream.batches()))
        with q.transaction(group) as tx:
            tx.send_many(target, batch.column("value").to_pylist())
            tx.commit_offsets(stream)
    assert (values(q, target), committed(q, group)) == (values(q, source), 10)


def test_a_group_is_at_the_end_though_transactions_end_with_records_of_their_own(q, target):
    group = f"{target}-reader"
    with q.transaction() as tx:
        tx.publish(target, b"1")
    tx = q.transactional().begin()
    tx.publish(target, b"never")
    tx.flush()
    tx.abort()
    with q.stream(target, group=group, auto_commit=False) as stream:
        assert next(iter(stream)).value == b"1"
        stream.commit()
        [part] = q.groups.describe(group).partitions
        assert (part.committed, part.end_offset, part.lag) == (4, 4, 0)


def test_a_stream_passes_over_what_was_aborted(q, target):
    """A reader that finds nothing but aborted messages is behind them all the same."""
    group = f"{target}-reader"
    tx = q.transactional().begin()
    tx.publish(target, b"never")
    tx.flush()
    tx.abort()
    found: list[bytes] = []
    with q.stream(target, group=group, auto_commit="20ms", max_wait="20ms") as stream:
        reading = threading.Thread(target=lambda: found.extend(message.value for message in stream))
        reading.start()
        wait_until(lambda: committed(q, group) == 2, SECONDS, "the group is behind them")
        stream.close()
        reading.join()
    assert found == []


def test_a_member_that_was_put_out_cannot_commit(q, source, target, shared_broker: BrokerProcess):
    group = f"{source}-group"

    def commit(stream) -> None:
        with q.transaction(group) as tx:
            tx.publish(target, b"zombie")
            tx.commit_offsets(stream)
            with quiver.connect(shared_broker.address) as other:
                options = {"group": group, "instance_id": "the one", "auto_commit": False}
                assert next(iter(other.stream(source, **options))).value == b"0"

    stream = q.stream(source, group=group, instance_id="the one", auto_commit=False)
    next(iter(stream))
    with pytest.raises(MemberFenced):
        commit(stream)
    assert values(q, target) == []
    stream.close()


def test_a_commit_follows_a_group_that_rebalances(q, source, target, shared_broker: BrokerProcess):
    """Another member comes: the generation is another one, and what this member still has is committed."""
    group = f"{source}-group"
    with q.stream(source, group=group, auto_commit=False, heartbeat="10s") as stream:
        next(iter(stream))
        with q.transaction(group) as tx:
            tx.publish(target, b"mine")
            tx.commit_offsets(stream)
            with quiver.connect(shared_broker.address) as other, other.stream(source, group=group):
                tx.commit()
        assert committed(q, group) == 1
    assert values(q, target) == [b"mine"]


def test_offsets_by_name(q, source, target):
    group = f"{source}-tool"
    with q.transaction() as tx:
        tx.publish(target, b"x")
        tx.commit_offsets(group, {source: {0: 3}})
        tx.commit_offsets(group, {source: {0: 7}})
    assert committed(q, group) == 7

    def commit(partition: int, offset: int) -> None:
        with q.transaction() as tx:
            tx.publish(target, b"never")
            tx.commit_offsets(group, {source: {partition: offset}})

    with pytest.raises(PartitionNotFound):
        commit(9, 1)
    for offset in (-1, 999):
        with pytest.raises(InvalidRequest, match="offset"):
            commit(0, offset)
    with q.stream(source, group=group), pytest.raises(GroupNotEmpty):
        commit(0, 1)
    assert (values(q, target), committed(q, group)) == ([b"x"], 7)


def test_a_stream_that_commits_by_itself_is_refused(q, source):
    with q.stream(source, group=f"{source}-group") as stream:
        next(iter(stream))
        with q.transaction() as tx, pytest.raises(InvalidRequest, match="auto_commit=False"):
            tx.commit_offsets(stream)


# jobs


def test_jobs_are_acked_by_the_commit_and_by_nobody_else(q, source, target):
    with q.work(source, group=f"{source}-group") as work:
        for job in islice(work, 5):
            with job, q.transaction("jobs") as tx:
                tx.publish(target, b"from " + job.value)
                tx.ack(job)
                assert job.is_settled
        assert depth(q, source)[1] <= 5
        with pytest.raises(LeaseLost):
            job.ack()
        with pytest.raises(LeaseLost):
            job.extend("1m")
    assert values(q, target) == [b"from %d" % number for number in range(5)]
    assert depth(q, source) == (5, 0, 0)


def test_a_job_of_an_aborted_transaction_is_its_holders_again(q, source, target):
    def fail(job) -> None:
        with q.transaction() as tx:
            tx.publish(target, b"never")
            tx.ack(job)
            raise Oops

    with q.work(source, group=f"{source}-group", prefetch=0) as work:
        job = work.next_job()
        with pytest.raises(Oops):
            fail(job)
        assert not job.is_settled
        with q.transaction() as tx:
            tx.ack(job)
        assert job.is_settled
        job = work.next_job()
        with pytest.raises(Oops):
            fail(job)
        job.ack()
    assert (depth(q, source), values(q, target)) == ((8, 0, 0), [])


def test_a_job_that_was_left_to_a_transaction_goes_back_when_that_aborts(q, source, target):
    def fail(work) -> None:
        with q.transaction() as tx:
            for _ in range(2):
                with work.next_job() as job:
                    tx.publish(target, job.value)
                    tx.ack(job)
            raise Oops

    with q.work(source, group=f"{source}-group", prefetch=0) as work:
        with pytest.raises(Oops):
            fail(work)
        wait_until(lambda: depth(q, source) == (8, 0, 2), SECONDS, "the jobs are given back")
    assert values(q, target) == []


def test_batches_are_acked_and_open_again(q, source, target):
    def fail(batch) -> None:
        with q.transaction() as tx:
            tx.send_many(target, batch.batch.column("value").to_pylist())
            tx.ack(batch)
            raise Oops

    with q.work(source, group=f"{source}-group", max_messages=5, prefetch=5) as work:
        batch = work.next_batch()
        jobs = list(batch)
        jobs[0].ack()
        with pytest.raises(Oops):
            fail(batch)
        assert [job.is_settled for job in jobs] == [True, False, False, False, False]
        with batch, q.transaction() as tx:
            tx.send_many(target, [job.value for job in jobs if not job.is_settled])
            tx.ack(batch)
        assert all(job.is_settled for job in jobs)
        batch = work.next_batch()
        with pytest.raises(Oops):
            fail(batch)
        batch.reject("no")
    assert values(q, target) == [b"1", b"2", b"3", b"4"]
    assert depth(q, source) == (0, 0, 0)


def test_leases_are_renewed_until_the_commit(q, source, target):
    with q.work(source, group=f"{source}-group", visibility="1s", prefetch=0) as work:
        job = work.next_job()
        until = threading.Event()
        with q.transaction() as tx:
            tx.publish(target, job.value)
            tx.ack(job)
            until.wait(2.5)  # longer than a lease lasts that is not renewed
        assert tx.state == "committed"
    assert (values(q, target), depth(q, source)) == ([b"0"], (9, 0, 0))


def test_a_lease_that_is_over_fails_the_commit(q, target, shared_broker: BrokerProcess):
    q.topics.create(f"{target}-one", backoff="0s")
    q.publish(f"{target}-one", b"contested")
    options = {"group": "rivals", "visibility": "1s", "prefetch": 0}

    def late(job, rival) -> None:
        with q.transaction() as tx:
            tx.publish(target, b"never")
            tx.ack(job)
            job.source.settler.leases.drop(job.source.run)  # as in a process that was stopped: nobody renews it
            with rival.next_job() as again:
                assert again.value == b"contested"

    with quiver.connect(shared_broker.address) as other, q.work(f"{target}-one", **options) as work:
        job = work.next_job()
        with other.work(f"{target}-one", **options) as rival, pytest.raises(LeaseLost):
            late(job, rival)
    assert values(q, target) == []


def test_workers(q, source, target):
    """A handler's transaction acks its job; the worker does not a second time, and gives back what was aborted."""
    failed = set[bytes]()

    @q.worker(source, group=f"{source}-group", concurrency=2)
    def handle(job) -> None:
        with q.transaction() as tx:
            tx.publish(target, job.value)
            tx.ack(job)
            if job.value not in failed and int(job.value) % 5 == 0:
                failed.add(job.value)
                raise Oops

    running = threading.Thread(target=q.run_workers)
    running.start()
    wait_until(lambda: len(values(q, target)) == 10, SECONDS, "all are handled")
    q.stop_workers()
    running.join()
    assert sorted(values(q, target)) == sorted(values(q, source))
    counters = q.worker_counters
    assert (counters.processed, counters.failed, counters.lost) == (10, 2, 0)
    assert depth(q, source) == (0, 0, 0)
