"""Workers when things go wrong: kills on both sides, pauses beyond the lease, handlers that take long."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until

SECONDS = 30.0
WORKER = Path(__file__).parent / "job_worker.py"


@pytest.fixture
def broker(start_broker) -> BrokerProcess:
    """It comes back on the same port."""
    return start_broker("--native-port", str(free_port()))


@contextmanager
def worker_process(broker: BrokerProcess, topic: str, group: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(WORKER), broker.address, topic, group]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            pipe.close()


def line(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip()


def test_a_worker_goes_on_after_the_broker_was_killed_or_restarted_and_nothing_is_lost(broker):
    with quiver.connect(broker.address) as q:
        q.topics.create("jobs", partitions=3, visibility="10s")
        values = {b"%d" % number for number in range(3000)}
        with q.producer("jobs") as out:
            out.send_many(sorted(values))
        seen: dict[bytes, list[int]] = {}
        work = q.work("jobs", group="g", prefetch=50)

        def consume() -> None:
            for job in work:
                with job:
                    seen.setdefault(job.value, []).append(job.attempt)

        consumer = threading.Thread(target=consume)
        consumer.start()
        for share, kill in ((500, True), (1500, False)):
            wait_until(lambda share=share: len(seen) >= share or not consumer.is_alive(), SECONDS, "it works")
            broker.restart(kill=kill)
        wait_until(lambda: len(seen) == 3000 or not consumer.is_alive(), SECONDS, "all are worked on")
        assert consumer.is_alive()
        work.close()
        consumer.join(SECONDS)
        assert set(seen) == values
        # What was leased for an answer that the kill swallowed comes again, and was never seen before.
        assert all(attempts == sorted(set(attempts)) for attempts in seen.values())
        depth = q.queues.depth("jobs", "g")
        assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)
        broker.restart(kill=True)
        depth = q.queues.depth("jobs", "g")
        assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)


async def test_an_asynchronous_worker_goes_on_too(broker):
    async with quiver.connect_async(broker.address) as q:
        await q.topics.create("jobs", partitions=1, visibility="10s")
        async with q.producer("jobs") as out:
            await out.send_many([b"%d" % number for number in range(1000)])
        seen: dict[bytes | None, list[int]] = {}
        async with q.work("jobs", group="g", prefetch=50) as work:
            async for job in work:
                async with job:
                    seen.setdefault(job.value, []).append(job.attempt)
                if len(seen) == 300 and job.attempt == 1:
                    broker.kill()
                    broker.start()
                if len(seen) == 1000:
                    break
        assert all(attempts == sorted(set(attempts)) for attempts in seen.values())
        depth = await q.queues.depth("jobs", "g")
        assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)


def test_an_explicit_ack_outlives_a_kill_of_the_broker(broker):
    with quiver.connect(broker.address) as q:
        q.topics.create("jobs", partitions=1)
        q.publish("jobs", "once")
        with q.work("jobs", group="g") as work:
            job = work.next_job()
            broker.restart(kill=True)
            job.ack()
            broker.restart(kill=True)
        depth = q.queues.depth("jobs", "g")
        assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)


def test_a_long_handler_keeps_its_lease(shared_broker):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("long", partitions=1, visibility="2s")
        q.publish("long", "long")
        rival = q.work("long", group="g")
        stolen: list[object] = []
        waiting = threading.Thread(target=lambda: stolen.append(rival.next_job()))
        with q.work("long", group="g") as work, work.next_job() as job:
            assert job.attempt == 1
            waiting.start()
            before = extensions(shared_broker)
            wait_until(
                lambda: extensions(shared_broker) >= before + 4,
                SECONDS,
                "the lease is renewed for more than its length",
            )
        rival.stop()
        waiting.join(SECONDS)
        assert stolen == [None]
        rival.close()
        assert q.queues.depth("long", "g").leased == 0


def extensions(broker: BrokerProcess) -> int:
    return int(broker.request("GET", "/reliability/stats")[1]["visibility_extensions"])


def test_a_worker_that_was_paused_beyond_its_lease_is_told(shared_broker):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("paused", partitions=1, visibility="1s")
        q.publish("paused", "slow")
        with worker_process(shared_broker, "paused", "g") as process:
            assert line(process) == "job slow 1"
            process.send_signal(signal.SIGSTOP)
            with q.work("paused", group="g") as work, work.next_job() as job:
                assert (job.value, job.attempt) == (b"slow", 2)
                # The worker counts its lease from when the job arrived, which may be much later on a busy machine.
                before = extensions(shared_broker)
                wait_until(lambda: extensions(shared_broker) >= before + 4, SECONDS, "a lease's time passes again")
                process.send_signal(signal.SIGCONT)
                process.stdin.write("go on\n")
                process.stdin.flush()
                assert line(process) == "lease_lost"
        depth = q.queues.depth("paused", "g")
        assert (depth.ready, depth.leased, depth.retrying, depth.dead) == (0, 0, 0, 0)


def test_a_worker_that_was_paused_can_still_ack_what_nobody_else_got(shared_broker):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("late", partitions=1, visibility="500ms")
        q.publish("late", "slow")
        with worker_process(shared_broker, "late", "g") as process:
            assert line(process) == "job slow 1"
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: not q.queues.depth("late", "g").leased, SECONDS, "the lease is over")
            process.send_signal(signal.SIGCONT)
            process.stdin.write("go on\n")
            process.stdin.flush()
            assert line(process) == "done"
            process.wait(SECONDS)
        depth = q.queues.depth("late", "g")
        assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)


def test_the_jobs_of_a_killed_worker_come_again(shared_broker):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("of", partitions=1, visibility="500ms")
        q.publish("of", "precious")
        with worker_process(shared_broker, "of", "g") as process:
            assert line(process) == "job precious 1"
            process.kill()
        with q.work("of", group="g") as work, work.next_job() as job:
            assert (job.value, job.attempt) == (b"precious", 2)
