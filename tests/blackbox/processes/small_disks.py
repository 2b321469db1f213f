"""Small file systems of a test's own: a tmpfs of a given size, an ext4 image on a loop device."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackbox.processes.broker_process import wait_until

_UNMOUNT_SECONDS = 5.0


@contextlib.contextmanager
def small_tmpfs(mount_point: Path, size_bytes: int) -> Iterator[Path]:
    """A tmpfs that is full after `size_bytes`; skips the test where mounting is not permitted."""
    mount_point.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(mount_point))
    try:
        yield mount_point
    finally:
        _unmount(mount_point)


def make_image(image: Path, size_bytes: int) -> None:
    """An empty ext4 file system in a file."""
    maker = shutil.which("mkfs.ext4") or shutil.which("mkfs.ext4", path="/usr/sbin:/sbin")
    if maker is None:
        pytest.skip("mkfs.ext4 is not installed")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run([maker, "-q", "-F", str(image)], check=True, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def mounted_image(image: Path, mount_point: Path) -> Iterator[Path]:
    """The file system of an image, mounted by loop; skips the test where that is not permitted."""
    mount_point.mkdir(parents=True)
    _mount("-o", "loop", str(image), str(mount_point))
    try:
        yield mount_point
    finally:
        _unmount(mount_point)


def _mount(*arguments: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        pytest.skip(f"mount is not permitted here: {done.stderr.strip()}")


def _unmount(mount_point: Path) -> None:
    """A process that was killed just now may still hold files; what is held for longer is detached from the tree."""

    def unmounted() -> bool:
        return (
            subprocess.run(["umount", str(mount_point)], stdin=subprocess.DEVNULL, capture_output=True).returncode
            == 0
        )

    try:
        wait_until(unmounted, _UNMOUNT_SECONDS, f"umount {mount_point}")
    except AssertionError:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True, stdin=subprocess.DEVNULL)
        raise
