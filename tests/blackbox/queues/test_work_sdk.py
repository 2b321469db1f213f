"""q.work against the shipped broker: jobs, batches, fates, priorities, order; threads, asyncio, embedded."""

import threading
from itertools import islice
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.errors import GroupKindMismatch, GroupOrderingMismatch, LeaseLost, TopicNotFound

SECONDS = 20.0


def fill(q, topic: str, count: int, **settings) -> set[bytes]:
    q.topics.create(topic, **settings)
    values = [b"%d" % number for number in range(count)]
    with q.producer(topic) as out:
        out.send_many(values, keys=values)
    return set(values)


def is_empty(q, topic: str, group: str) -> bool:
    depth = q.queues.depth(topic, group)
    return not (depth.ready or depth.leased or depth.retrying)


def test_every_message_is_worked_on_once_and_acks_are_there_on_return(q):
    values = fill(q, "once", 5000)
    seen = []
    with q.work("once", group="g") as work:
        for job in work:
            with job:
                assert job.attempt == 1
                seen.append(job.value)
            if len(seen) == 5000:
                break
    assert sorted(seen) == sorted(values)
    assert is_empty(q, "once", "g")


def test_batches_of_many_partitions(q):
    values = fill(q, "batches", 5000, partitions=4)
    seen: list[bytes] = []
    with q.work("batches", group="g", max_messages=100) as work:
        for batch in work.batches():
            with batch:
                assert 1 <= len(batch) <= 100
                assert batch.batch.column("value").to_pylist() == [job.value for job in batch]
                seen += batch.table.column("value").to_pylist()
            if len(seen) == 5000:
                break
    assert sorted(seen) == sorted(values)
    assert is_empty(q, "batches", "g")


def test_a_failed_job_comes_again_with_its_error_and_ends_as_a_dead_letter(q):
    fill(q, "failing", 1, partitions=1, backoff="1ms", max_attempts=3)
    attempts = []

    def fail(job) -> None:
        with job:
            attempts.append((job.attempt, job.last_error))
            raise ValueError("no")

    with q.work("failing", group="g") as work:
        while len(attempts) < 3:
            with pytest.raises(ValueError, match="no"):
                fail(work.next_job())
        wait_until(lambda: len(q.dead_letters.list("failing")) == 1, SECONDS, "the dead letter")
    assert attempts == [(1, None), (2, "ValueError: no"), (3, "ValueError: no")]
    assert is_empty(q, "failing", "g")


def test_reject_nack_and_extend_by_hand(q):
    fill(q, "by-hand", 3, partitions=1)
    with q.work("by-hand", group="g") as work:
        first, second, third = islice(work, 3)
        assert first.extend("1m") > second.append_time
        first.reject("bad")
        second.nack(delay=0, error="busy")
        third.nack(delay=0, counted=False)
        again = sorted(islice(work, 2), key=lambda job: job.offset)
        assert [(job.offset, job.attempt) for job in again] == [(1, 2), (2, 1)]
        assert again[0].last_error == "busy"
        for job in again:
            job.ack()
        with pytest.raises(LeaseLost):
            first.ack()
    [dead_letter] = q.dead_letters.list("by-hand")
    assert dead_letter.reason == "rejected"


def test_a_critical_message_overtakes_what_was_prefetched(q):
    q.topics.create("urgent", partitions=1)
    for number in range(30):
        q.publish("urgent", f"low {number}", priority="low")
    with q.work("urgent", group="g", prefetch=100) as work:
        seen = [work.next_job()]
        wait_until(lambda: work._buffer.count == 29, SECONDS, "everything is prefetched")
        q.publish("urgent", "now", priority="critical")
        wait_until(lambda: work._buffer.count == 30, SECONDS, "the urgent one is here")
        seen += islice(work, 30)
        order = [job.value.decode() for job in seen]
        for job in seen:
            job.ack()
    assert order.index("now") <= 7
    assert [value for value in order if value != "now"] == [f"low {number}" for number in range(30)]


def test_prefetched_messages_are_given_back_at_once_and_uncounted(q):
    values = fill(q, "given-back", 100, partitions=1)
    with q.work("given-back", group="g", prefetch=50) as work:
        with work.next_job() as job:
            first = job.value
        wait_until(lambda: work._buffer.count >= 40, SECONDS, "some are prefetched")
    with q.work("given-back", group="g") as work:
        rest = []
        for job in islice(work, 99):
            assert job.attempt == 1
            with job:
                rest.append(job.value)
    assert {first, *rest} == values


def test_two_consumers_share_and_no_message_goes_to_both(q):
    values = fill(q, "shared", 2000, partitions=2)
    seen: list[bytes] = []
    works = [q.work("shared", group="g", prefetch=20) for _ in range(2)]

    def consume(work) -> None:
        for job in work:
            with job:
                seen.append(job.value)

    threads = [threading.Thread(target=consume, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(seen) >= 2000, SECONDS, "all are worked on")
    for work in works:
        work.stop()
    for thread in threads:
        thread.join(SECONDS)
    for work in works:
        work.close()
    assert sorted(seen) == sorted(values)
    assert is_empty(q, "shared", "g")


def test_order_of_keys_holds_with_concurrency_and_failures(q):
    q.topics.create("lanes", partitions=2, backoff="1ms", max_attempts=100)
    with q.producer("lanes") as out:
        for number in range(400):
            out.send(b"%d" % number, key=b"k%d" % (number % 7))
    done: dict[bytes, list[int]] = {}
    failed: set[bytes] = set()

    @q.worker("lanes", group="ordered", ordering="key", concurrency=4)
    def handle(job) -> None:
        number = int(job.value)
        if number % 10 == 3 and job.value not in failed:
            failed.add(job.value)
            raise ValueError(number)
        done.setdefault(job.key, []).append(number)

    runner = threading.Thread(target=q.run_workers)
    runner.start()
    wait_until(lambda: sum(map(len, done.values())) >= 400, SECONDS, "all are worked on")
    q.stop_workers()
    runner.join(SECONDS)
    assert len(failed) == 40
    assert {key: sorted(numbers) for key, numbers in done.items()} == done
    assert sum(map(len, done.values())) == 400
    assert is_empty(q, "lanes", "ordered")


def test_the_wrong_kind_and_ordering_of_a_group_are_told(q):
    fill(q, "kinds", 1)
    with q.stream("kinds", group="stream"):
        pass
    with pytest.raises(GroupKindMismatch):
        q.work("kinds", group="stream").next_job()
    with q.work("kinds", group="queue") as work, work.next_job():
        pass
    with pytest.raises(GroupOrderingMismatch):
        q.work("kinds", group="queue", ordering="key").next_job()
    q.work("kinds", group="lanes", ordering="key").next_job().ack()
    with q.work("kinds", group="lanes") as work:
        assert work.is_ordered  # also where it is not named again
    with pytest.raises(TopicNotFound):
        q.work("no-such-topic", group="queue").next_job()


async def test_asynchronous(shared_broker: BrokerProcess):
    async with quiver.connect_async(shared_broker.address) as q:
        await q.topics.create("awaited", partitions=2)
        async with q.producer("awaited") as out:
            await out.send_many([b"%d" % number for number in range(2000)])
        seen: list[bytes | None] = []
        async with q.work("awaited", group="g") as work:
            async for job in work:
                async with job:
                    seen.append(job.value)
                if len(seen) == 1000:
                    break
            async for batch in work.batches():
                seen += [job.value for job in batch]
                await batch.ack()
                if len(seen) == 2000:
                    break
        depth = await q.queues.depth("awaited", "g")
    assert len(set(seen)) == 2000
    assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)


def test_embedded(tmp_path: Path):
    with quiver.open(tmp_path / "data") as q:
        values = fill(q, "inside", 500)
        with q.work("inside", group="g") as work:
            seen = set()
            for job in work:
                with job:
                    seen.add(job.value)
                if len(seen) == 500:
                    break
        assert seen == values
        assert is_empty(q, "inside", "g")
    with quiver.open(tmp_path / "data") as q:
        assert is_empty(q, "inside", "g")


async def test_embedded_asynchronous(tmp_path: Path):
    async with quiver.open_async(tmp_path / "data") as q:
        await q.topics.create("inside")
        await q.publish("inside", "hello")
        async with q.work("inside", group="g") as work, await work.next_job() as job:
            assert job.value == b"hello"
