"""An archive of the classes that Spark loads, so that its JVM starts in about half the time (class-data sharing).

It is made once per machine and version, by a process in the background, and kept beside the Spark home that sessions
use. Java itself refuses an archive that does not fit its class path and starts without it.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from quiver.model.limits import DAY_MS
from quiver.system.clock import SystemClock
from quiver.system.files import Files

SETTING = "spark.quiver.classArchive"
QUIET = "-Xlog:cds*=off"
"""Java's remarks about classes that cannot be archived, and about an archive that does not fit."""
_MAKER = "quiver_spark.runtime.make_class_archive"
_MAGIC = bytes.fromhex("a8ab0bf0")
"""The number that a dynamic archive begins with. Java writes it last."""
_UNUSED_DAYS = 30
_makers: list[subprocess.Popen[bytes]] = []


class ClassArchive:
    """The archive for sessions whose Spark is in `home`, as far as there is one."""

    def __init__(self, home: Path, java_version: str) -> None:
        self._place = home.parent / f"classes-{_digest(home, java_version)}"
        self._is_missing = False

    def options(self) -> str:
        """Options of Java; empty while there is no archive."""
        if any(character.isspace() for character in str(self._place)):
            return ""  # Spark divides the options of Java at spaces
        try:
            archive = next(filter(is_whole, self._place.parent.glob(f"{self._place.name}-*.jsa")), None)
            if archive is not None:
                os.utime(archive)
                return f"-XX:SharedArchiveFile={archive} {QUIET}"
            self._is_missing = True
        except OSError:
            pass  # the cache cannot be read: a session starts without it
        return ""

    def make_if_missing(self) -> None:
        """After `options` found none: one is made in the background, for the next sessions, unless that was tried in
        the last day."""
        with contextlib.suppress(OSError):  # the cache cannot be written
            if self._is_missing and _may_try(self._place.with_suffix(".tried")):
                _start_making(self._place)


def keep(made: Path, place: Path) -> bool:
    """Gives an archive that Java has written its name, which has its size, if it is whole."""
    try:
        files = Files()
        opened = files.open_readonly(made)
        try:
            files.fdatasync(opened)
        finally:
            files.close(opened)
        named = place.with_name(f"{place.name}-{made.stat().st_size}.jsa")
        made.rename(named)
    except FileNotFoundError:
        return False
    return is_whole(named)


def is_whole(archive: Path) -> bool:
    """Java would crash with an archive of which a part is missing."""
    size = archive.stem.rpartition("-")[2]
    with archive.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC and size == str(os.fstat(file.fileno()).st_size)


def await_archives() -> None:
    """Returns when the archives that this process has begun are made."""
    while _makers:
        _makers.pop().wait()


def remove_unused(directory: Path) -> None:
    """Archives that no session has used for a month: those of versions that were replaced."""
    for archive in directory.glob("classes-*.jsa"):
        with contextlib.suppress(FileNotFoundError):
            if _age_days(archive) > _UNUSED_DAYS:
                archive.unlink()


def _age_days(path: Path) -> float:
    """Below zero when the clock was set back."""
    return (SystemClock().now_ms() - path.stat().st_mtime_ns / 1e6) / DAY_MS


def _digest(home: Path, java_version: str) -> str:
    """Different whenever Java or one of Spark's jars is another one."""
    jars = [(entry.name, (found := entry.stat()).st_size, found.st_mtime_ns) for entry in os.scandir(home / "jars")]
    return hashlib.sha256(repr((str(home), java_version, sorted(jars))).encode()).hexdigest()[:16]


def _may_try(tried: Path) -> bool:
    """Notes the attempt. Of several sessions that start at the same time one gets True."""
    with contextlib.suppress(FileNotFoundError):
        if 0 <= _age_days(tried) < 1:
            return False
        tried.unlink()
    try:
        os.close(os.open(tried, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _start_making(place: Path) -> None:
    """The process goes on when this one ends; it writes nothing but the archive."""
    if not sys.executable:
        return
    nothing, command = subprocess.DEVNULL, [sys.executable, "-m", _MAKER, str(place)]
    _makers.append(subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True))
