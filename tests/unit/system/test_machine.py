"""The file system below a path, and open files."""

import os
from pathlib import Path

import pytest

from quiver.system import machine
from quiver.system.machine import file_system_of, open_file_use


def test_the_longest_mount_point_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "with space"
    inner.mkdir()
    mounts = tmp_path / "mountinfo"
    escaped = str(inner).replace(" ", "\\040")
    mounts.write_text(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"22 21 0:5 / {escaped} rw,relatime shared:1 - tmpfs none rw\n"
        "23 21 0:6 / /elsewhere rw - xfs /dev/sdb rw\n"
    )
    monkeypatch.setattr(machine, "_MOUNTS", mounts)
    assert file_system_of(tmp_path)[:2] == ("ext4", "/")
    found = file_system_of(inner)
    assert found[:2] == ("tmpfs", str(inner))
    assert found.total_bytes > found.free_bytes >= 0
    monkeypatch.setattr(machine, "_MOUNTS", tmp_path / "missing")
    assert file_system_of(inner).kind == ""
    with pytest.raises(OSError, match="No such file"):
        file_system_of(tmp_path / "missing")


def test_open_files_are_counted() -> None:
    before = open_file_use()
    assert before.limit > before.open > 0
    with open(os.devnull):
        assert open_file_use().open == before.open + 1
