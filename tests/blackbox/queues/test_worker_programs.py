"""Programs that end with `q.run_workers()`: signals end them cleanly, and nothing stays leased."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until

SECONDS = 30.0
COUNT = 20
SYNC = """
import pathlib, sys, time
import quiver

HERE = pathlib.Path(sys.argv[2])

with quiver.connect(sys.argv[1]) as q:
    @q.worker("jobs", group="workers")
    def work(job):
        (HERE / "begun").touch()
        while not (HERE / "gate").exists():
            time.sleep(0.01)

    q.run_workers()
    print("done", q.worker_counters.processed, flush=True)
"""
ASYNC = """
import asyncio, pathlib, sys
import quiver

HERE = pathlib.Path(sys.argv[2])

async def main():
    async with quiver.connect_async(sys.argv[1]) as q:
        @q.worker("jobs", group="workers")
        async def work(job):
            (HERE / "begun").touch()
            while not (HERE / "gate").exists():
                await asyncio.sleep(0.01)

        await q.run_workers()
        print("done", q.worker_counters.processed, flush=True)

asyncio.run(main())
"""


@contextmanager
def running(program: str, broker: BrokerProcess, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program whose handler holds the first of many jobs; the others are received ahead."""
    with quiver.connect(broker.address) as q:
        q.topics.create("jobs", partitions=1)
        for number in range(COUNT):
            q.publish("jobs", f"{number}")
    command = [sys.executable, "-c", program, broker.address, str(place)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until((place / "begun").exists, SECONDS, "a handler runs")
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
def test_a_signal_ends_it_cleanly(broker: BrokerProcess, tmp_path: Path, program: str, number: int):
    with running(program, broker, tmp_path) as process, quiver.connect(broker.address) as q:
        process.send_signal(number)
        wait_until(
            lambda: q.queues.depth("jobs", "workers").leased == 1, SECONDS, "what was received ahead is given back"
        )
        (tmp_path / "gate").touch()
        out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, out, err) == (0, b"done 1\n", b"")
        depth = q.queues.depth("jobs", "workers")
        assert (depth.ready, depth.leased, depth.retrying) == (COUNT - 1, 0, 0), "available to others at once"
        with q.work("jobs", group="workers", timeout=SECONDS) as jobs:
            job = jobs.next_job()
            assert job is not None
            with job:
                assert (job.value, job.attempt) == (b"1", 1), "a delivery that came to nothing does not count"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
def test_a_second_signal_does_not_wait(broker: BrokerProcess, tmp_path: Path, program: str, number: int):
    with running(program, broker, tmp_path) as process, quiver.connect(broker.address) as q:
        process.send_signal(number)
        wait_until(lambda: q.queues.depth("jobs", "workers").leased == 1, SECONDS, "it is stopping")
        process.send_signal(number)
        if program is SYNC and number == signal.SIGINT:  # Ctrl-C unwinds, and a thread cannot be interrupted
            (tmp_path / "gate").touch()
        out, _ = process.communicate(timeout=SECONDS)
        assert process.returncode != 0
        assert out == b""


def test_a_program_with_handlers_of_its_own_keeps_them(broker: BrokerProcess, tmp_path: Path):
    own = "import signal, os\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(42))\n"
    with running(own + SYNC, broker, tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 42


def test_handlers_are_put_back(broker: BrokerProcess):
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    with quiver.connect(broker.address) as q:
        q.topics.create("jobs", partitions=1)
        q.publish("jobs", b"x")
        during = []

        @q.worker("jobs", group="workers")
        def work(job: quiver.Job) -> None:
            during.extend(signal.getsignal(number) for number in numbers)
            q.stop_workers()

        q.run_workers()
    assert [signal.getsignal(number) for number in numbers] == before
    assert during[0] is not before[0]
