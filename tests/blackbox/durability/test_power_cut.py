"""A power cut: the data directory lies on an ext4 image, the broker is stopped where it is, the image is copied, and
a new broker starts on the copy. What was synced is in the copy, what only the page cache had is gone."""

import contextlib
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import quiver
from blackbox.callers.load import Load, check_stored, stored_numbers
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.processes.small_disks import make_image, mounted_image

IMAGE_BYTES = 192 * 1024 * 1024
ACKS = 5000
PROGRESS_SECONDS = 60

Check = Callable[[Load, BrokerProcess], None]


def _run_through_a_power_cut(directory: Path, durability: str, check: Check) -> None:
    """A load goes on while the power is cut and comes back; `check` looks at what both ended up with."""
    image, copy = directory / "disk.img", directory / "copy.img"
    make_image(image, IMAGE_BYTES)
    arguments = ("--min-free-bytes", "0", "--native-port", str(free_port()))
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(mounted_image(image, directory / "before"))
        before = stack.enter_context(BrokerProcess(disk / "data", *arguments))
        with quiver.connect(before.address) as q:
            q.topics.create("orders", partitions=2, durability=durability)
        load = Load(before.address, "orders", 2)
        load.start()
        _await_acks(load, ACKS)
        before.send_signal(signal.SIGSTOP)
        subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
        before.kill()
        disk_after = stack.enter_context(mounted_image(copy, directory / "after"))
        after = stack.enter_context(BrokerProcess(disk_after / "data", *arguments))
        _await_acks(load, len(load.acked) + ACKS)
        load.finish()
        check(load, after)


def _await_acks(load: Load, count: int) -> None:
    wait_until(lambda: len(load.acked) >= count or not load.is_alive(), PROGRESS_SECONDS, f"{count} acks")
    if load.error is not None:
        raise load.error


def test_nothing_acked_with_fsync_is_lost(tmp_path: Path) -> None:
    def check(load: Load, broker: BrokerProcess) -> None:
        with quiver.connect(broker.address) as q:
            assert check_stored(q, "orders", load.acked) == load.sent

    _run_through_a_power_cut(tmp_path, "fsync", check)


def test_no_offset_is_used_twice_with_interval(tmp_path: Path) -> None:
    def check(load: Load, broker: BrokerProcess) -> None:
        places = [(ack.partition, ack.offset) for ack in load.acked]
        assert len(set(places)) == len(places)
        with quiver.connect(broker.address) as q:
            found = stored_numbers(q, "orders")
            check_stored(q, "orders", [])
        stored = {(partition, offset): number for partition, pairs in found.items() for offset, number in pairs}
        for ack in load.acked:
            assert stored.get((ack.partition, ack.offset)) in (None, ack.number)
        last = load.acked[-1]
        assert stored[last.partition, last.offset] == last.number

    _run_through_a_power_cut(tmp_path, "interval", check)
