"""What of a data directory is known to be on disk: the names in directories, and logs as they were found."""

from pathlib import Path
from threading import Lock

from quiver.log.files.found_logs import FEW, FoundLogs
from quiver.system.files import Files


class Directories:
    """Which directories below a root have a durable name, so that one sync serves all that were made before it.

    Safe between threads. A directory that it has not seen counts as not durable: it may be of a process that was
    killed.
    """

    def __init__(self, root: Path, files: Files, *, few_logs: int = FEW) -> None:
        """The names of the root and of all directories above it are durable."""
        self._root = root
        self._files = files
        self._lock = Lock()
        self._made: dict[Path, set[Path]] = {}
        """By their parent: those whose names its next sync makes durable."""
        self._durable: dict[Path, set[Path]] = {}
        """By their parent."""
        self._removals = 0
        self.found_logs = FoundLogs(root, files, few_logs)

    def make(self, directory: Path) -> None:
        """Makes a directory; its name is not durable yet."""
        self._files.make_directory(directory)
        with self._lock:
            self._made.setdefault(directory.parent, set()).add(directory)

    def sync(self, directory: Path) -> None:
        """Makes the names in a directory durable, and its own with those of the directories above it."""
        self._files.sync_directory(directory)
        while directory != self._root and not self._is_durable(directory):
            parent = directory.parent
            with self._lock:
                made, removals = self._made.pop(parent, set()) | {directory}, self._removals
            self._files.sync_directory(parent)
            with self._lock:
                if self._removals == removals:  # otherwise one of them may be gone, and be made again
                    self._durable.setdefault(parent, set()).update(made)
            directory = parent

    def forget(self, directory: Path) -> None:
        """It is about to be removed, with everything in it."""
        with self._lock:
            self._removals += 1
            for known in (self._made, self._durable):
                known.get(directory.parent, set()).discard(directory)
                inside = [directory]
                while inside:
                    inside += known.pop(inside.pop(), ())

    def _is_durable(self, directory: Path) -> bool:
        with self._lock:
            return directory in self._durable.get(directory.parent, ())
