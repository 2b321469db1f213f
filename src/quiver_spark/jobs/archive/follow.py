"""`archive --follow`: archives what comes, commit by commit, until it is asked to stop.

The positions in the table are the only state: a process that ends, in whatever way, and one that begins later
continue each other exactly.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from quiver.model.errors import CorruptData, InvalidRequest, OffsetOutOfRange, QuiverError, TopicNotFound
from quiver.model.limits import MIB
from quiver_spark.jobs.progress import Summary

_logger = logging.getLogger(__name__)
FOLLOW_COMMIT_BYTES = 1024 * MIB
"""A stop waits for one commit at most."""
_LONGEST_PAUSE_SECONDS = 60.0
_FINAL = (InvalidRequest, CorruptData, OffsetOutOfRange, TopicNotFound)
"""Trying again does not help."""


class Follow(NamedTuple):
    archive: Callable[[], Summary]
    """One run over what is there."""
    tidy: Callable[[], None]
    """Joins small files, and removes old ones."""
    report: Callable[[Summary], None]
    """Gets every run that has archived something."""
    every_seconds: float = 10.0
    tidy_after: int = 30
    """So many runs that archived something make small files worth joining."""

    def until(self, stop: threading.Event) -> Summary:
        """Runs until `stop` is set. The first run must succeed; errors that pass are retried after that.

        The summary is of all runs.
        """
        total = self.archive()
        self._done(total)
        commits = failures = 0
        while not stop.wait(self._pause(failures)):
            try:
                done = self.archive()
                failures = 0
                if done.rows:
                    self._done(done)
                    commits += 1
                    _add(total, done)
                if commits >= self.tidy_after:
                    commits = 0
                    self.tidy()
            except _FINAL:
                raise
            except QuiverError as error:
                failures += 1
                _logger.warning("the archive tries again in %.0f s: %s", self._pause(failures), error.message)
        return total

    def _done(self, summary: Summary) -> None:
        if summary.rows:
            self.report(summary)

    def _pause(self, failures: int) -> float:
        return min(self.every_seconds * 2.0**failures, max(_LONGEST_PAUSE_SECONDS, self.every_seconds))


def _add(total: Summary, done: Summary) -> None:
    total.rows += done.rows
    total.files += done.files
    total.bytes += done.bytes
    total.seconds += done.seconds
    total.details = {**total.details, "version": done.details["version"]}


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second signal has its usual effect."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}

    def ask(number: int, frame: object) -> None:
        stop.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in numbers:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
