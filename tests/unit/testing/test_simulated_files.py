"""Files on a simulated disk, and what a crash or a power cut leaves of them."""

from pathlib import Path

import pytest

from quiver.system.randomness import seeded
from quiver.testing.files import Killed
from quiver.testing.simulation.system.clock import EPOCH_MS, SimulatedClock
from quiver.testing.simulation.system.disk import PAGE_BYTES, Disk
from quiver.testing.simulation.system.files import SimulatedFiles
from quiver.testing.simulation.world import World

ROOT = Path("/data")
FILE = ROOT / "one"


def files_on(disk: Disk) -> SimulatedFiles:
    return SimulatedFiles(disk, SimulatedClock(World(1)), lambda: None)


def new_disk(seed: int = 1) -> Disk:
    disk = Disk(seeded(str(seed)))
    files = files_on(disk)
    files.make_directory(ROOT)
    files.sync_directory(ROOT.parent)
    return disk


def test_it_does_what_files_do() -> None:
    files = files_on(new_disk())
    fd = files.open(FILE, create=True)
    assert files.pwritev(fd, [b"ab", b"cd"], 2) == 4
    assert files.pread(fd, 10, 0) == b"\0\0abcd"
    files.truncate(fd, 3)
    assert files.size(fd) == files.path_size(FILE) == 3
    assert files.modified_ms(FILE) == EPOCH_MS
    files.close(fd)
    files.rename(FILE, ROOT / "two")
    files.write_file(FILE, b"small")
    assert files.read_file(FILE) == b"small"
    assert files.names(ROOT) == ["one", "two"]
    files.remove(FILE)
    files.remove_tree(ROOT)
    assert files.names(ROOT) == []
    for missing in (files.open, files.open_readonly, files.read_file, files.path_size):
        with pytest.raises(FileNotFoundError):
            missing(FILE)
    with pytest.raises(OSError, match="descriptor"):
        files.pread(fd, 1, 0)


def test_a_killed_process_leaves_what_it_wrote_and_does_nothing_more() -> None:
    disk, killed = new_disk(), list[str]()
    files = SimulatedFiles(disk, SimulatedClock(World(1)), lambda: killed.append("now"))
    fd = files.open(FILE, create=True)
    files.kill_after(2)
    files.pwritev(fd, [b"first"], 0)
    with pytest.raises(Killed):
        files.pwritev(fd, [b"second"], 5)
    assert killed == ["now"]
    with pytest.raises(Killed):
        files.read_file(FILE)
    assert files_on(disk).read_file(FILE) == b"firstsec", "half of the last write"


def test_a_power_cut_keeps_what_was_synced() -> None:
    for seed in range(30):
        disk = new_disk(seed)
        files = files_on(disk)
        files.write_file(FILE, b"durable" * 1000)
        disk.cut_power()
        assert files_on(disk).read_file(FILE) == b"durable" * 1000


def test_a_power_cut_may_take_the_rest_page_by_page() -> None:
    sizes, mixed = set[int](), 0
    old, new = bytes(4 * PAGE_BYTES), b"n" * (6 * PAGE_BYTES)
    for seed in range(60):
        disk = new_disk(seed)
        files = files_on(disk)
        files.write_file(FILE, old)
        files.pwritev(files.open(FILE), [new], 0)
        disk.cut_power()
        left = files_on(disk).read_file(FILE)
        sizes.add(len(left))
        pages = {left[place : place + PAGE_BYTES] for place in range(0, 4 * PAGE_BYTES, PAGE_BYTES)}
        assert pages <= {bytes(PAGE_BYTES), b"n" * PAGE_BYTES}
        mixed += len(pages) == 2
    assert sizes == {len(old), len(new)}
    assert mixed


def test_a_power_cut_may_take_names_that_were_not_synced() -> None:
    found = set[bytes]()
    for seed in range(60):
        disk = new_disk(seed)
        files = files_on(disk)
        files.write_file(FILE, b"old")
        files.write_file(ROOT / "next", b"new")
        files.rename(ROOT / "next", FILE)
        disk.cut_power()
        after = files_on(disk)
        found.add(after.read_file(FILE))
        if after.names(ROOT) == ["next", "one"] and after.read_file(FILE) == b"new":
            after.pwritev(after.open(FILE), [b"changed"], 0)
            assert after.read_file(ROOT / "next") == b"new", "two files, not two names of one"
    assert found == {b"old", b"new"}
