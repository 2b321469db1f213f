"""Whether this node has stopped cleanly: a file in its data directory, there while it is stopped.

Logs that are acked before they are synced may have lost something at a stop that was not clean.
"""

from pathlib import Path

from quiver.system.files import Files

NAME = "stopped-cleanly"


class CleanStop:
    """Blocking calls, at the start and at the end of a process."""

    def __init__(self, directory: Path, files: Files) -> None:
        self._directory, self._files = directory, files

    def take(self, incarnation: int) -> int:
        """At the start: returns the last incarnation that began after a stop that was not clean: maybe this one."""
        path = self._directory / NAME
        try:
            lost_at = int(self._files.read_file(path))
        except (OSError, ValueError):
            lost_at = incarnation
        self._files.remove(path)
        self._files.sync_directory(self._directory)
        return lost_at

    def leave(self, lost_at: int) -> None:
        """At the end, when everything is closed and synced."""
        self._files.write_file(self._directory / NAME, b"%d" % lost_at, sync=True)
        self._files.sync_directory(self._directory)
