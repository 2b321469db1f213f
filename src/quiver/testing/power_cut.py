"""A disk that forgets: after a power cut only synced bytes and names are certain, and any part of the rest.

Files are real ones below a root. `cut` builds the tree that a power cut now could leave behind: threads that are at
work change nothing while it is built.
"""

import os
import random
from collections.abc import Sequence
from pathlib import Path
from threading import RLock

from quiver.system.files import Buffer, Files

_PAGE_BYTES = 4096


class PowerCutFiles(Files):
    def __init__(self, root: Path) -> None:
        self._root = root
        self._turn = RLock()
        self._synced: dict[int, bytes] = {}
        self._durable_names: dict[Path, dict[str, int]] = {root: {}}
        self._removed: dict[int, bytes] = {}
        self._renamed: dict[int, Path] = {}

    def open(self, path: Path, *, create: bool = False) -> int:
        with self._turn:
            return super().open(path, create=create)

    def make_directory(self, path: Path) -> None:
        with self._turn:
            super().make_directory(path)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        with self._turn:
            return super().pwritev(fd, buffers, position)

    def truncate(self, fd: int, size: int) -> None:
        with self._turn:
            super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        with self._turn:  # the descriptor may be write-only
            self._synced[os.fstat(fd).st_ino] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def sync_file_system(self, path: Path) -> bool:
        with self._turn:
            for folder, _, names in os.walk(self._root):
                for name in names:
                    file = Path(folder, name)
                    self._synced[file.stat().st_ino] = file.read_bytes()
                self._durable_names[Path(folder)] = _names(Path(folder))
            return True

    def sync_directory(self, path: Path) -> None:
        with self._turn:
            self._durable_names[path] = _names(path)

    def remove(self, path: Path) -> None:
        with self._turn:
            self._keep_removed(path)
            super().remove(path)

    def rename(self, source: Path, target: Path) -> None:
        with self._turn:
            self._keep_removed(target)
            self._renamed[source.stat().st_ino] = target  # the old name may come back
            super().rename(source, target)

    def remove_tree(self, path: Path) -> None:
        """Durable immediately, so that the numbers of its files may be used again."""
        with self._turn:
            for each in path.rglob("*"):
                self._synced.pop(each.stat().st_ino, None)
            super().remove_tree(path)
            self._durable_names = {
                each: names for each, names in self._durable_names.items() if path not in (each, *each.parents)
            }
            self._durable_names.get(path.parent, {}).pop(path.name, None)

    def _keep_removed(self, path: Path) -> None:
        """Keeps the bytes of a file that loses its name, and the file itself: its number must not be used again."""
        if path.exists():
            inode = path.stat().st_ino
            self._removed[inode] = path.read_bytes()
            removed = self._root.parent / "removed"
            removed.mkdir(exist_ok=True)
            if not (removed / str(inode)).exists():
                os.link(path, removed / str(inode))

    def cut(self, target: Path, chance: random.Random) -> None:
        """Writes what may be left after a power cut now to a new directory."""
        with self._turn:
            self._copy_directory(self._root, target, chance)

    def _copy_directory(self, source: Path, target: Path, chance: random.Random) -> None:
        target.mkdir()
        now, durable = _names(source), self._durable_names.get(source, {})
        for name in sorted(now.keys() | durable.keys()):
            choice = (now if chance.random() < 0.5 else durable).get(name)
            if choice is None:
                continue
            path = source / name
            if path.is_dir():
                self._copy_directory(path, target / name, chance)
            else:
                (target / name).write_bytes(self._content(path, choice, chance))

    def _content(self, path: Path, inode: int, chance: random.Random) -> bytes:
        places = (place for place in (path, self._renamed.get(inode)) if place is not None and place.exists())
        place = next((place for place in places if place.stat().st_ino == inode), None)
        new = self._removed[inode] if place is None else place.read_bytes()
        old = self._synced.get(inode, b"")
        if old == new:
            return new
        size = chance.choice([len(old), len(new)])
        pages = []
        for begin in range(0, size, _PAGE_BYTES):
            version = chance.choice([old, new])
            pages.append(version[begin : begin + _PAGE_BYTES].ljust(_PAGE_BYTES, b"\0"))
        return b"".join(pages)[:size]


def _names(path: Path) -> dict[str, int]:
    with os.scandir(path) as entries:
        return {entry.name: entry.inode() for entry in entries}
