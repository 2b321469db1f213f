"""`quiver.open`: the broker inside the process."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import quiver
from quiver.model.errors import Closed, DataDirectoryInUse, ForkRefused, InvalidSetting


def test_the_same_client_without_a_port(tmp_path: Path):
    with quiver.open(tmp_path / "data") as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", {"id": 1}, key="customer-7")
        with q.producer("orders") as out:
            out.send_many([b"x"] * 10_000)
        assert sum(1 for _ in q.read("orders", end="latest")) == 10_001
    with quiver.open(tmp_path / "data") as q:
        assert q.topics.list() == ["orders"]
        assert sum(q.offsets("orders").values()) == 10_001


async def test_the_asynchronous_twin(tmp_path: Path):
    async with quiver.open_async(tmp_path / "data", auto_create=True) as q:
        await q.topics.create("orders")
        assert (await q.publish("orders", b"x", partition=1)).offset == 0
        assert [message.value async for message in q.read("orders", end="latest")] == [b"x"]


def test_in_memory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with quiver.open(":memory:", auto_create=True) as q, quiver.open(":memory:") as other:
        other.topics.create("orders", partitions=1, cleanup="compact")
        assert q.topics.list() == []
        q.publish("orders", {"id": 1}, key="customer-7")
        with q.producer("orders") as out:
            out.send_many([b"x"] * 10_000)
        assert sum(1 for _ in q.read("orders", end="latest")) == 10_001
        for n in range(3):
            other.publish("orders", b"%d" % n, key="same")
        other.topics.compact("orders")
        assert [message.value for message in other.read("orders", end="latest")] == [b"2"]
        with q.transaction("tx") as tx, q.work("orders", group="g", prefetch=0) as jobs:
            job = jobs.next_job()
            tx.ack(job)
            tx.publish("out", b"done")
        assert [message.value for message in q.read("out", end="latest")] == [b"done"]
        with q.stream("out", group="s") as messages:
            assert next(iter(messages)).value == b"done"
        q.publish("later", b"x", delay="1h")
        assert len(list(q.delayed.list("later"))) == 1
    assert list(tmp_path.iterdir()) == []
    with quiver.open(":memory:") as q:
        assert q.topics.list() == []


async def test_in_memory_asynchronously(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    q = await quiver.open_async(":memory:")
    await q.topics.create("orders")
    await q.publish("orders", b"x")
    assert [message.value async for message in q.read("orders", end="latest")] == [b"x"]
    await q.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_may_be_named_like_that(tmp_path: Path):
    with quiver.open(tmp_path / ":memory:") as q:
        q.topics.create("orders")
    assert (tmp_path / ":memory:").is_dir()


def test_a_second_process_is_told_who_holds_the_data(tmp_path: Path):
    script = f"import quiver; quiver.open({str(tmp_path / 'data')!r})"
    with quiver.open(tmp_path / "data"):
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert found.returncode == 1
        assert "DataDirectoryInUse" in found.stderr
        assert f"process {os.getpid()}" in found.stderr
        with pytest.raises(DataDirectoryInUse):
            quiver.open(tmp_path / "data")


def test_no_signal_handlers_no_threads_left(tmp_path: Path):
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    before = set(threading.enumerate())
    with quiver.open(tmp_path / "data") as q:
        q.topics.create("orders")
        q.publish("orders", b"x")
        assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert set(threading.enumerate()) <= before


def test_use_after_fork_is_refused(tmp_path: Path):
    with quiver.open(tmp_path / "data") as q:
        q.topics.create("orders", partitions=1)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                q.publish("orders", b"child")
            except ForkRefused:
                try:
                    q.close()
                    status = 0
                except BaseException:
                    status = 2
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert q.publish("orders", b"parent").offset == 0


def test_bad_settings_and_closed_clients_are_told(tmp_path: Path):
    with pytest.raises(InvalidSetting, match="colour"):
        quiver.open(tmp_path / "data", colour="red")
    q = quiver.open(tmp_path / "data")
    q.close()
    q.close()
    with pytest.raises(Closed):
        q.topics.list()


def test_a_program_that_forgets_to_close_loses_nothing(tmp_path: Path):
    script = textwrap.dedent(f"""
        import quiver
        q = quiver.open({str(tmp_path / "data")!r})
        q.topics.create("orders", partitions=1, durability="interval")
        for n in range(100):
            q.publish("orders", b"%d" % n)
    """)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    with quiver.open(tmp_path / "data") as q:
        assert [message.value for message in q.read("orders", end="latest")] == [b"%d" % n for n in range(100)]
        assert q.offsets("orders") == {0: 100}
