"""What a client logs about failures that it retries: the first, then fewer and fewer, and the recovery."""

import logging

from quiver.model.errors import ConnectionLost, QuiverError
from quiver.system.clock import Clock

logger = logging.getLogger("quiver.client")

_FIRST_GAP_SECONDS = 1.0
_LONGEST_GAP_SECONDS = 60.0
_QUIET_SECONDS = 120.0
"""A failure of a kind that did not occur for this long counts as new."""


class _Episode:
    __slots__ = ("began_at", "gap", "last_at", "next_at")

    def __init__(self, now: float) -> None:
        self.began_at = self.last_at = now
        self.gap = _FIRST_GAP_SECONDS
        self.next_at = now


class RetryLog:
    """For one broker. Each kind of error has its own lines: the interval between two doubles up to a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._episodes: dict[str, _Episode] = {}
        self.connection_error: QuiverError | None = None
        """Why there is no connection, while one is being tried."""

    def retrying(self, what: str, error: QuiverError, attempt: int, wait_seconds: float) -> None:
        """An attempt has failed, and there will be another one."""
        is_connection = isinstance(error, ConnectionLost)
        if is_connection:
            self.connection_error = error
        episode = self._due(error.code)
        if episode is not None:
            since = f" for {episode.last_at - episode.began_at:.0f} s" if episode.gap > 2 * _FIRST_GAP_SECONDS else ""
            subject = error.message if is_connection else f"{what}: {error.message}"
            logger.warning("%s (attempt %d%s, next in %.2f s)", subject, attempt, since, wait_seconds)

    def broke(self, error: QuiverError) -> None:
        """A connection that was in use is lost."""
        if ConnectionLost.code not in self._episodes and self._due("broke") is not None:
            logger.warning("%s", error.message)

    def connected(self, address: str) -> None:
        self.connection_error = None
        episode = self._episodes.pop(ConnectionLost.code, None)
        if episode is None:
            logger.info("connected to %s", address)
        else:
            logger.warning("connected to %s again, after %.1f s", address, self._clock.monotonic() - episode.began_at)

    def _due(self, kind: str) -> _Episode | None:
        """The episode if a line is due; then none is due for a while."""
        now = self._clock.monotonic()
        episode = self._episodes.get(kind)
        if episode is None or now - episode.last_at > _QUIET_SECONDS:
            episode = self._episodes[kind] = _Episode(now)
        episode.last_at = now
        if now < episode.next_at:
            return None
        episode.next_at, episode.gap = now + episode.gap, min(_LONGEST_GAP_SECONDS, 2 * episode.gap)
        return episode
