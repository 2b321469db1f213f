"""What every unit test gets: files that a killed or abandoned log left open are closed after it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from quiver.log.files.open_files import OpenFiles
from quiver.storage.local.wal.files import WalFiles

T = TypeVar("T")


@pytest.fixture(autouse=True)
def abandoned_files_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A killed process leaves no descriptors; a kill that a test plays leaves them in the test's own process."""
    logs = _instances(OpenFiles, monkeypatch)
    wals = _instances(WalFiles, monkeypatch)
    yield
    for log in logs:
        for file in list(log._recent):
            if _close(file.fd, file.path):
                file.fd = -1
    for wal in wals:
        if _close(wal._fd, wal._directory):
            wal._fd = -1


def _instances(kind: type[T], monkeypatch: pytest.MonkeyPatch) -> list[T]:
    """Those that are made from now on."""
    created: list[T] = []
    init = kind.__init__

    def remember(self: T, *args: object, **options: object) -> None:
        init(self, *args, **options)
        created.append(self)

    monkeypatch.setattr(kind, "__init__", remember)
    return created


def _close(fd: int, path: Path) -> bool:
    try:
        is_real = os.readlink(f"/proc/self/fd/{fd}").startswith(str(path))
    except OSError:  # a file in memory, or closed
        return False
    if is_real:
        os.close(fd)
    return is_real
