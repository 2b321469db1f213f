"""A disk in memory that knows what was synced: a power cut takes any part of the rest.

The rules are those of `quiver.testing.power_cut`. Of a file, each page that was written since the last sync may be
old or new, and so may its size. Of a directory, each name may be as it was at its last sync, or as it is.
"""

import random
from copy import deepcopy
from pathlib import Path

PAGE_BYTES = 4096
FREE_BYTES = 1 << 40


class Inode:
    """A file. Remembers what a power cut may bring back."""

    __slots__ = ("_old_pages", "_old_size", "data", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.modified_ms = modified_ms
        self._old_size = 0
        self._old_pages: dict[int, bytes] = {}

    def write(self, data: bytes, position: int) -> None:
        end = position + len(data)
        self._keep_pages(min(position, len(self.data)), end)
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position:end] = data

    def truncate(self, size: int) -> None:
        if size < len(self.data):
            self._keep_pages(size, len(self.data))
            del self.data[size:]
        else:
            self._keep_pages(len(self.data), size)
            self.data.extend(bytes(size - len(self.data)))

    def sync(self) -> None:
        self._old_pages.clear()
        self._old_size = len(self.data)

    def _keep_pages(self, begin: int, end: int) -> None:
        for page in range(begin // PAGE_BYTES, -(-end // PAGE_BYTES)):
            if page not in self._old_pages:
                place = page * PAGE_BYTES
                self._old_pages[page] = bytes(self.data[place : min(place + PAGE_BYTES, self._old_size)])

    def after_cut(self, chance: random.Random) -> "Inode":
        """What a power cut may leave of it."""
        left = Inode(self.modified_ms)
        size = chance.choice([self._old_size, len(self.data)]) if self._old_size != len(self.data) else self._old_size
        for place in range(0, size, PAGE_BYTES):
            page = self._old_pages.get(place // PAGE_BYTES)
            if page is None or chance.random() < 0.5:
                page = bytes(self.data[place : place + PAGE_BYTES])
            left.data += page.ljust(PAGE_BYTES, b"\0")
        del left.data[size:]
        left.sync()
        return left


class Directory:
    def __init__(self) -> None:
        self.names: dict[str, Inode | Directory] = {}
        self._synced: dict[str, Inode | Directory] = {}

    def sync(self) -> None:
        self._synced = dict(self.names)

    def sync_all(self) -> None:
        """With everything below."""
        self.sync()
        for found in self.names.values():
            if isinstance(found, Directory):
                found.sync_all()
            else:
                found.sync()

    def forget(self, name: str) -> None:
        """Its removal is durable."""
        self.names.pop(name, None)
        self._synced.pop(name, None)

    def after_cut(self, chance: random.Random) -> "Directory":
        left = Directory()
        for name in sorted(self.names.keys() | self._synced.keys()):
            found = (self.names if chance.random() < 0.5 else self._synced).get(name)
            if found is not None:
                left.names[name] = found.after_cut(chance)
        left.sync()
        return left


class Disk:
    """What outlives the process. Slow while `slowness` is above 1."""

    def __init__(self, chance: random.Random) -> None:
        self.root = Directory()
        self.slowness = 1.0
        self.free_bytes = FREE_BYTES
        """What it says is free. There may be no room although something is free, as with a quota."""
        self.room_bytes: int | None = None
        """How much files can still grow; None: without an end."""
        self.is_failing = False
        """Whether writes and syncs fail."""
        self._chance = chance

    def repair(self) -> None:
        self.is_failing = False
        self.make_room()

    def make_room(self) -> None:
        self.free_bytes, self.room_bytes = FREE_BYTES, None

    def grow(self, wanted_bytes: int) -> int:
        """Takes room for a file that grows; returns how much there was, up to what is wanted."""
        if self.room_bytes is None:
            return wanted_bytes
        taken = min(wanted_bytes, self.room_bytes)
        self.room_bytes -= taken
        return taken

    def delay_seconds(self) -> float:
        """How long something takes: mostly short, now and then long."""
        seconds = self._chance.random() * 0.0005
        if self._chance.random() < 0.05:
            seconds += self._chance.random() * 0.02
        return seconds * self.slowness

    def sync(self) -> None:
        self.root.sync_all()

    def cut_power(self) -> None:
        """Only what was synced is sure to be there afterwards."""
        self.root = self.root.after_cut(self._chance)

    def copy(self) -> Directory:
        return deepcopy(self.root)

    def restore(self, copy: Directory) -> None:
        self.root = deepcopy(copy)

    def erase(self) -> None:
        """Another disk, with nothing on it."""
        self.root = Directory()

    def directory(self, path: Path) -> Directory:
        """FileNotFoundError, NotADirectoryError."""
        found = self._find(path)
        if not isinstance(found, Directory):
            raise NotADirectoryError(str(path))
        return found

    def file(self, path: Path) -> Inode:
        found = self._find(path)
        if not isinstance(found, Inode):
            raise IsADirectoryError(str(path))
        return found

    def _find(self, path: Path) -> Inode | Directory:
        found: Inode | Directory = self.root
        for name in path.parts[1:]:
            if not isinstance(found, Directory) or name not in found.names:
                raise FileNotFoundError(2, "No such file or directory", str(path))
            found = found.names[name]
        return found
