"""The disk fills up: writes are refused with a clear error, reads go on, writes resume when there is room."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.callers.load import Acked, check_stored
from blackbox.processes.broker_process import BrokerExited, BrokerProcess, wait_until
from blackbox.processes.small_disks import small_tmpfs
from quiver.model.errors import DiskFull, QuiverError

MIB = 1024 * 1024
DISK = 48 * MIB
ROOM = 8 * MIB
RESUME_SECONDS = 30
PATIENCE_SECONDS = 1
"""How long a client repeats a refused publish."""
FILLING = 100_000

StartBroker = Callable[..., BrokerProcess]


# Tests name `disk` before `start_broker`: fixtures end in reverse, and the broker must go before its disk does.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_tmpfs(tmp_path / "disk", DISK) as mounted:
        yield mounted


@pytest.fixture
def ballast(disk: Path) -> Path:
    """A file that leaves little room; removing it is the operator who cleans up."""
    path = disk / "ballast"
    path.write_bytes(bytes(DISK - ROOM))
    return path


def _publish(q: Any, number: int) -> Acked:
    answer = q.publish("orders", (b"%d" % number).ljust(FILLING), partition=number % 2)
    return Acked(answer.partition, answer.offset, number)


def _publish_until_refused(q: Any) -> tuple[list[Acked], QuiverError]:
    acked: list[Acked] = []
    while len(acked) * FILLING < 2 * DISK:
        try:
            acked.append(_publish(q, len(acked)))
        except QuiverError as refusal:
            return acked, refusal
    raise AssertionError("more went in than the disk holds")


@pytest.mark.parametrize(
    ("min_free_bytes", "durability"),
    [(2 * MIB, "fsync"), (0, "fsync"), (0, "interval")],
    ids=["below the threshold", "full, fsync", "full, interval"],
)
def test_writes_are_refused_reads_go_on_and_writes_resume(
    disk: Path, ballast: Path, start_broker: StartBroker, min_free_bytes: int, durability: str
) -> None:
    broker = start_broker("--min-free-bytes", str(min_free_bytes), data_dir=disk / "data")
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        q.topics.create("orders", partitions=2, durability=durability)
        acked, refusal = _publish_until_refused(q)
        assert isinstance(refusal, DiskFull), refusal
        assert acked
        assert check_stored(q, "orders", acked) == len(acked)
        assert broker.request("GET", "/livez")[0] == 200
        ballast.unlink()
        number = len(acked)
        wait_until(lambda: _resumed(q, acked, number), RESUME_SECONDS, "writes resume")
        assert broker.request("GET", "/readyz")[0] == 200
    broker.restart(kill=True)
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        assert check_stored(q, "orders", acked) == len(acked)


def _resumed(q: Any, acked: list[Acked], number: int) -> bool:
    try:
        acked.append(_publish(q, number))
    except DiskFull:
        return False
    return True


def test_below_the_threshold_readiness_names_the_disk(disk: Path, ballast: Path, start_broker: StartBroker) -> None:
    broker = start_broker("--min-free-bytes", str(2 * MIB), data_dir=disk / "data")
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        q.topics.create("orders", partitions=2)
        _publish_until_refused(q)
    assert _free_bytes(disk) > MIB, "writes are refused before the disk is full"
    (disk / "somebody else's").write_bytes(bytes(MIB))
    wait_until(lambda: broker.request("GET", "/readyz")[0] == 503, RESUME_SECONDS, "readiness notices")
    _, ready = broker.request("GET", "/readyz?verbose=true")
    assert ready["checks"]["disk"]["status"] == "fail", ready
    refusal = wait_until(lambda: _http_refusal(broker), RESUME_SECONDS, "small messages are refused too")
    assert "free" in refusal


def _http_refusal(broker: BrokerProcess) -> str:
    _, answer = broker.request("POST", "/topics/orders/messages", {"messages": [{"value": "small"}]})
    return str(answer.get("error") or answer["results"][0].get("error", ""))


def test_a_broker_starts_below_the_threshold_and_reads(disk: Path, ballast: Path, start_broker: StartBroker) -> None:
    broker = start_broker("--min-free-bytes", str(2 * MIB), data_dir=disk / "data")
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        q.topics.create("orders", partitions=2)
        acked, _ = _publish_until_refused(q)
    broker.kill()
    (disk / "somebody else's").write_bytes(bytes(MIB))
    broker.start(ready=False)
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        assert check_stored(q, "orders", acked) == len(acked)
        with pytest.raises(DiskFull):
            _publish(q, len(acked))
        ballast.unlink()
        wait_until(lambda: _resumed(q, acked, len(acked)), RESUME_SECONDS, "writes resume")


def test_a_start_on_a_disk_without_a_free_byte_is_refused_and_harms_nothing(
    disk: Path, ballast: Path, start_broker: StartBroker
) -> None:
    broker = start_broker("--min-free-bytes", "0", data_dir=disk / "data")
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        q.topics.create("orders", partitions=2)
        acked, _ = _publish_until_refused(q)
    broker.kill()
    shutil.rmtree(disk / "data" / "wal")  # the start would free its room
    _fill_to_the_last_byte(disk / "somebody else's")
    with pytest.raises(BrokerExited) as refused:
        broker.start(ready=False)
    assert refused.value.status > 0
    assert "no space left" in refused.value.log.lower()
    assert "Traceback" not in refused.value.log
    ballast.unlink()
    broker.start()
    with quiver.connect(broker.address) as q:
        assert check_stored(q, "orders", acked) == len(acked)


def _fill_to_the_last_byte(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def _free_bytes(path: Path) -> int:
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize
