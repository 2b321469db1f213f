"""A forked child and the clients of its parent: closing is quiet, all else is refused, nothing is disturbed."""

import contextlib
import faulthandler
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import ForkRefused

_COUNT = 5000


def run_child(body: Callable[[], None]) -> None:
    """Runs `body` in a fork; a child that hangs is ended by its alarm."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        faulthandler.dump_traceback_later(15)
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@contextlib.contextmanager
def held_up(broker: BrokerProcess) -> Iterator[None]:
    """What is sent meanwhile is certainly not answered."""
    broker.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.send_signal(signal.SIGCONT)


class Parent:
    """A program in the middle of everything at once."""

    def __init__(self, broker: BrokerProcess, stack: contextlib.ExitStack) -> None:
        self.q = stack.enter_context(quiver.connect(broker.address))
        for topic in ("bulk", "events", "jobs", "receipts"):
            self.q.topics.create(topic, partitions=1)
        self.q.publish("events", b"e")
        self.q.publish("jobs", b"j")
        self.out = stack.enter_context(self.q.producer("bulk"))
        self.out.send(b"first").result()
        self.messages = stack.enter_context(self.q.stream("events", group="stream"))
        self.reader = stack.enter_context(self.q.read("events"))
        self.jobs = stack.enter_context(self.q.work("jobs", group="queue"))
        self.message = next(iter(self.messages))
        assert next(iter(self.reader)).value == b"e"
        job = self.jobs.next_job()
        assert job is not None
        self.job = stack.enter_context(job)
        self.tx = stack.enter_context(self.q.transaction("parent"))
        self.tx.publish("receipts", b"r")

    def send_much(self) -> None:
        self.future = self.out.send_many([b"x" * 100] * _COUNT)
        self.out.send(b"last")


def check(broker: BrokerProcess) -> None:
    """Everything that the parent did counts, once."""
    with quiver.connect(broker.address) as q:
        assert sum(1 for _ in q.read("bulk", end="latest")) == _COUNT + 2
        assert [message.value for message in q.read("receipts", end="latest")] == [b"r"]
        assert q.groups.describe("stream").partitions[0].committed == 1
        depth = q.queues.depth("jobs", "queue")
        assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)


@pytest.mark.parametrize("error", [None, SystemExit()])
def test_a_child_leaves_the_blocks_of_its_parent(broker: BrokerProcess, error: BaseException | None, caplog):
    with contextlib.ExitStack() as stack:
        parent = Parent(broker, stack)

        def leave() -> None:
            if error is None:
                with contextlib.suppress(ForkRefused):  # a transaction that is left normally is asked to commit
                    stack.close()
            else:
                stack.__exit__(type(error), error, None)

        with held_up(broker):
            parent.send_much()
            run_child(leave)
        assert len(parent.future.result(30)) >= 1
    check(broker)
    assert not [record for record in caplog.records if "connection" in record.getMessage().lower()]


def test_a_child_is_refused_everything_else(broker: BrokerProcess):
    with contextlib.ExitStack() as stack:
        parent = Parent(broker, stack)
        calls: list[Callable[[], object]] = [
            lambda: parent.q.topics.list(),
            lambda: parent.q.publish("bulk", b"child"),
            lambda: parent.out.send(b"child"),
            lambda: parent.out.flush(),
            lambda: parent.future.result(),
            lambda: next(iter(parent.messages)),
            lambda: parent.messages.commit(),
            lambda: parent.message.commit(),
            lambda: next(iter(parent.reader)),
            lambda: parent.jobs.next_job(),
            lambda: parent.jobs.next_batch(),
            lambda: parent.job.ack(),
            lambda: parent.tx.publish("receipts", b"child"),
            lambda: parent.tx.commit(),
            lambda: parent.tx.abort(),
            lambda: parent.q.transaction("child").begin(),
        ]

        def try_all() -> None:
            for call in calls:
                with pytest.raises(ForkRefused):
                    call()

        with held_up(broker):
            parent.send_much()
            run_child(try_all)
    check(broker)


def test_locks_that_other_threads_hold_at_the_fork_do_not_matter(broker: BrokerProcess):
    """The child forks again and again while threads publish and work."""
    with quiver.connect(broker.address) as q:
        q.topics.create("busy", durability="interval")
        is_over = threading.Event()

        def publish() -> None:
            while not is_over.is_set():
                q.publish("busy", b"x", key="k")

        threads = [threading.Thread(target=publish) for _ in range(3)]
        with q.producer("busy", linger="1ms") as out, q.work("busy", group="g") as jobs:
            for thread in threads:
                thread.start()
            try:
                for _ in range(20):
                    out.send_many([b"y"] * 1000)
                    with jobs.next_job() or contextlib.nullcontext():
                        run_child(lambda: (out.close(), jobs.close(), q.close()))
            finally:
                is_over.set()
                for thread in threads:
                    thread.join()


async def test_the_asynchronous_twin(broker: BrokerProcess, tmp_path: Path):
    async def leave(*closers: Callable[[], object]) -> None:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            status = 1
            try:
                for close in closers:
                    await close()  # type: ignore[misc]
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    async with quiver.connect_async(broker.address) as q, quiver.open_async(tmp_path / "embedded") as inside:
        await q.topics.create("bulk", partitions=1)
        async with q.producer("bulk") as out, q.work("bulk", group="g") as jobs:
            await out.send_many([b"x"] * _COUNT)
            await out.send(b"last")
            await leave(out.close, jobs.close, q.close, inside.close)
        assert sum((await q.offsets("bulk")).values()) == _COUNT + 1
        assert await inside.topics.list() == []
