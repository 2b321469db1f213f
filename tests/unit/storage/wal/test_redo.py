"""What redo writes, and what it leaves alone."""

from pathlib import Path

import pytest

from quiver.log.files.found_logs import FEW, FoundLogs
from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.record import FORGET, FRAMES, encode
from quiver.storage.local.wal.redo import redo
from quiver.system.files import Files


def redone(root: Path, *records: bytes, few: int = FEW) -> FoundLogs:
    wal, found_logs = WalFiles(root / "wal", Files()), FoundLogs(root, Files(), few)
    wal.write(1, records)
    redo(wal, root / "logs", Files(), found_logs)
    assert not list((root / "wal").iterdir())
    return found_logs


def segment(root: Path, log_id: str, base: int, content: bytes) -> Path:
    path = root / "logs" / log_id / f"{base:020d}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def frames(log_id: str, base: int, position: int, data: bytes) -> bytes:
    return encode(1, FRAMES, log_id.encode(), base, position, [data])


def forget(prefix: str) -> bytes:
    return encode(1, FORGET, prefix.encode())


@pytest.mark.parametrize("few", [0, FEW], ids=["synced at once", "one by one"])
def test_lost_bytes_come_back(tmp_path: Path, few: int) -> None:
    path = segment(tmp_path, "topics/1/0", 0, b"synced|to\0\0")
    found = redone(tmp_path, frames("topics/1/0", 0, 7, b"torn"), frames("topics/1/0", 0, 11, b"lost"), few=few)
    assert path.read_bytes() == b"synced|tornlost"
    assert found.is_synced("topics/1/0")


def test_segments_that_were_closed_are_left_alone(tmp_path: Path) -> None:
    """They were synced when they were closed, and may be compacted since."""
    closed, last = segment(tmp_path, "a", 0, b"compacted"), segment(tmp_path, "a", 50, b"")
    redone(tmp_path, frames("a", 0, 0, b"as it was"), frames("a", 50, 0, b"new"))
    assert (closed.read_bytes(), last.read_bytes()) == (b"compacted", b"new")


def test_what_was_forgotten_does_not_come_back(tmp_path: Path) -> None:
    one, ten = segment(tmp_path, "topics/1/0", 0, b""), segment(tmp_path, "topics/10/0", 0, b"")
    redone(
        tmp_path,
        frames("topics/1/0", 0, 0, b"old"),
        frames("topics/10/0", 0, 0, b"other topic"),
        forget("topics/1"),
        frames("topics/1/0", 0, 0, b"n"),
    )
    assert (one.read_bytes(), ten.read_bytes()) == (b"n", b"other topic")


def test_files_that_are_gone_are_not_made_again(tmp_path: Path) -> None:
    left = segment(tmp_path, "a", 0, b"")
    redone(tmp_path, frames("gone/0", 0, 0, b"frame"), frames("a", 30, 0, b"of a segment that is gone"))
    assert not (tmp_path / "logs" / "gone").exists()
    assert left.read_bytes() == b""


def test_nothing_is_written_after_a_hole(tmp_path: Path) -> None:
    path = segment(tmp_path, "a", 0, b"short")
    redone(tmp_path, frames("a", 0, 5, b"|"), frames("a", 0, 60, b"far away"), frames("a", 0, 6, b"no more"))
    assert path.read_bytes() == b"short|"
