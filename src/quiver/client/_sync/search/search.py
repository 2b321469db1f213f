# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""A search: iterate for the messages that fit, as they are found."""

from collections.abc import Iterator

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client.search.found_message import FoundMessage, found_message
from quiver.model.errors import Closed, InvalidRequest, QuiverError
from quiver.protocol.message import Message
from quiver.protocol.search_messages import BeginSearch, CancelSearch, GetSearch, SearchProgress

_WAIT_MS = 2_000
"""How long one request waits for more."""


class Search:
    """Begins when it is first iterated over. Raises QuiverError if it fails or is cancelled by others."""

    def __init__(self, broker: ReconnectingConnection, request: BeginSearch) -> None:
        self._broker = broker
        self._request = request
        self._progress: SearchProgress | None = None
        self._is_cancelled = False

    @property
    def progress(self) -> SearchProgress:
        """As of the last message: state, scanned, total, matched, cursor, stopped_by, seconds."""
        if self._progress is None:
            raise InvalidRequest(problem="the search has not begun: iterate over it first")
        return self._progress

    def cancel(self) -> None:
        """Ends the search; the iteration ends with what was found so far."""
        self._is_cancelled = True
        if self._progress is not None and self._progress.state == "running":
            self._progress = self._ask(CancelSearch(self._progress.id))

    def __iter__(self) -> Iterator[FoundMessage]:
        if self._progress is not None:
            raise Closed(what="the search")
        # A repeat after a lost connection may begin it twice; nobody asks for the first one, so it ends by itself.
        progress = self._progress = self._ask(self._request)
        count = 0
        try:
            while not self._is_cancelled:
                progress = self._progress = self._ask(GetSearch(progress.id, count, _WAIT_MS))
                for row in progress.messages:
                    count += 1
                    yield found_message(self._request.topic, row)
                if progress.state != "running":
                    break
        finally:
            if progress.state == "running" and not self._is_cancelled:
                self.cancel()
        if progress.state == "failed" or (progress.state == "cancelled" and not self._is_cancelled):
            raise QuiverError(f"the search of {self._request.topic!r} ended early: {progress.error or 'cancelled'}")

    def _ask(self, request: Message) -> SearchProgress:
        answer = (self._broker.call(request)).answer
        if not isinstance(answer, SearchProgress):
            raise unexpected(answer)
        return answer
