"""Where the files of a broker are on this machine, remembered between the slices that a process reads."""

from collections.abc import Callable

from quiver.system.clock import Clock
from quiver_spark.direct.broker_files import are_here
from quiver_spark.source.slices import BrokerFiles

_AGAIN_SECONDS = 10.0
"""How long a broker counts as one without files here: it may be starting, or its name may not resolve just now."""


class KnownFiles:
    """What was found counts for as long as that start of the broker runs."""

    def __init__(self, find: Callable[[], BrokerFiles | None], clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._found: BrokerFiles | None = None
        self._asked_at: float | None = None

    def now(self) -> BrokerFiles | None:
        """None if the broker runs elsewhere or not at all, or if this user may not read its files."""
        if self._found is not None:
            if are_here(self._found):
                return self._found
        elif self._asked_at is not None and self._clock.monotonic() - self._asked_at < _AGAIN_SECONDS:
            return None
        self._found = self._find()
        self._asked_at = self._clock.monotonic()
        return self._found
