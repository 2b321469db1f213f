"""Checks of a data directory from the outside: nothing in it is opened for writing, locked or changed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from quiver.cli.doctor.finding import Finding, ok, problem, shortened, warning
from quiver.cli.doctor.machine_checks import check_disk, check_newest_file
from quiver.cli.formats.output import human_bytes
from quiver.model.errors import QuiverError
from quiver.reader.running_broker import running_broker
from quiver.system.clock import Clock
from quiver.system.machine import file_system_of

_STATE_FILE = "broker.json"
_SHOWN = 20
_RESTORE = "restore the files of that log from a backup and restart; docs/recovery.md says what is served without it"


class StoredFile(NamedTuple):
    path: str
    """Relative to the data directory."""
    size_bytes: int
    modified_ms: int


class DirectoryLook:
    def __init__(self, path: Path, clock: Clock, min_free_bytes: int) -> None:
        self.path = path
        self._clock = clock
        self._min_free_bytes = min_free_bytes

    def running_broker(self) -> dict[str, Any] | None:
        """What the broker that uses the directory now has left in it; None when none runs on this machine."""
        return running_broker(self.path)

    def findings(self) -> Iterator[Finding]:
        if not self.path.is_dir():
            yield problem(
                "data directory", f"{self.path} does not exist", "check --data-dir (quiver config shows it)"
            )
            return
        yield from self._access()
        yield from check_disk(str(self.path), file_system_of(self.path), self._min_free_bytes)
        files = self.files()
        newest = max((file.modified_ms for file in files), default=0)
        if (moved := check_newest_file(str(self.path), newest, self._clock.now_ms())) is not None:
            yield moved
        yield from self._state(files)
        yield from shortened(list(self._logs()), _SHOWN)

    def files(self) -> list[StoredFile]:
        """Every file with its size, sorted by path; what disappears meanwhile is left out."""
        found = []
        for folder, _, names in os.walk(self.path):
            for name in names:
                path = Path(folder, name)
                try:
                    status = path.lstat()
                except OSError:
                    continue
                relative = str(path.relative_to(self.path))
                found.append(StoredFile(relative, status.st_size, status.st_mtime_ns // 1_000_000))
        return sorted(found)

    def _access(self) -> Iterator[Finding]:
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            yield problem(
                "data directory",
                f"this user may not read and write {self.path}",
                "run the broker, and this command, as the owner of the directory",
            )

    def _state(self, files: list[StoredFile]) -> Iterator[Finding]:
        size = human_bytes(sum(file.size_bytes for file in files))
        shown = f"{self.path}: {len(files):,} files, {size}"
        running = self.running_broker()
        if running is not None:
            yield ok("data directory", f"{shown}; used by the broker with process id {running['pid']}")
        elif (self.path / _STATE_FILE).exists():
            yield warning(
                "data directory",
                f"{shown}; the last broker did not stop cleanly, and none runs now",
                "start the broker: it checks the ends of the logs and continues",
            )
        else:
            yield ok("data directory", f"{shown}; no broker uses it now")
        cut = [file for file in files if "/quarantine/" in file.path]
        if cut:
            yield warning(
                "data directory",
                f"{len(cut)} files with bytes that recovery cut off, such as {cut[0].path}",
                "docs/recovery.md says what they are; delete them when you do not need them",
            )

    def _logs(self) -> Iterator[Finding]:
        """Whether the journals of topics and groups can be replayed, and the end of each partition found."""
        from quiver.reader.data_directory import DataDirectory, partition_log

        try:
            directory = DataDirectory(self.path)
            if directory.is_of_cluster:
                return
            topics = directory.topics()
        except (QuiverError, OSError) as error:
            yield problem("logs", f"the journal of topics: {_text(error)}", _RESTORE)
            return
        try:
            directory.group_names()
        except (QuiverError, OSError) as error:
            yield problem("logs", f"the journal of groups: {_text(error)}", _RESTORE)
        bad = 0
        for topic in topics.values():
            for number in range(topic.config.partitions):
                log_id = partition_log(topic.id, number)
                if not directory.has_log(log_id):
                    continue
                log = directory.log(log_id, f"{topic.name}-{number}")
                try:
                    log.refresh()
                except (QuiverError, OSError) as error:
                    bad += 1
                    yield problem("logs", f"{topic.name}-{number}: {_text(error)}", _RESTORE)
                finally:
                    log.close()
        if not bad:
            yield ok("logs", f"{len(topics)} topics, the end of every log was found")


def _text(error: QuiverError | OSError) -> str:
    return error.message if isinstance(error, QuiverError) else error.strerror or str(error)
