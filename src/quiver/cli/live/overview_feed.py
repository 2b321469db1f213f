"""What the broker does, as it says itself once per second: read in a thread, with the newest kept."""

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from quiver.cli.http_source import HttpSource, http_source
from quiver.model.errors import InvalidRequest, QuiverError
from quiver.system.clock import Clock

if TYPE_CHECKING:
    from quiver.client import Client
    from quiver.protocol.group_messages import GroupSummary

_OVERVIEW = "/overview"
_STREAM = "/overview/stream"
_RETRY_SECONDS = 1.0
_GROUPS_SECONDS = 5.0
_POINTS = 900


class Look(NamedTuple):
    """Everything that one frame shows."""

    overview: dict[str, Any]
    groups: "Sequence[GroupSummary]"
    problem: str | None = None
    """Why nothing newer comes."""


class OverviewFeed:
    """`look` is the newest, None before the first. `fd` becomes readable when there is a newer one."""

    def __init__(self, q: "Client", http: str | None, clock: Clock) -> None:
        self._q = q
        self._http = http
        self._clock = clock
        self._ending = threading.Event()
        self._groups: Sequence[GroupSummary] = ()
        self._groups_at = -_GROUPS_SECONDS
        self._thread = threading.Thread(target=self._run, name="quiver-top", daemon=True)
        self.look: Look | None = None
        self.fd, self._wake = os.pipe()

    def once(self) -> Look:
        """One look, without the thread. Raises QuiverError."""
        response = self._source().get(_OVERVIEW)
        if response.status != 200:
            raise InvalidRequest(problem=f"{_OVERVIEW} responded {response.status}: the broker is of another version")
        return Look(response.document(), self._q.groups.list())

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """The thread ends with the next line, or with the process."""
        self._ending.set()

    def seen(self) -> None:
        """Empties `fd`, before `look` is read: what comes afterwards makes it readable again."""
        os.read(self.fd, 4096)

    def _source(self) -> HttpSource:
        return http_source(self._q, self._http)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._follow()
                problem = "the broker has stopped"
            except (QuiverError, msgspec.MsgspecError) as error:
                problem = str(error)
            self._show(self._without_news(problem))
            self._ending.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        for line in self._source().lines(_STREAM):
            overview = msgspec.json.decode(line)
            if self.look is not None and "history" not in overview:
                overview["history"] = _continued(self.look.overview.get("history", {}), overview)
            self._show(Look(overview, self._newest_groups()))
            if self._ending.is_set():
                return

    def _newest_groups(self) -> "Sequence[GroupSummary]":
        now = self._clock.monotonic()
        if now - self._groups_at >= _GROUPS_SECONDS:
            self._groups, self._groups_at = self._q.groups.list(), now
        return self._groups

    def _without_news(self, problem: str) -> Look:
        last = self.look
        return Look({}, (), problem) if last is None else last._replace(problem=problem)

    def _show(self, look: Look) -> None:
        self.look = look
        os.write(self._wake, b".")


def _continued(history: dict[str, list[float]], overview: dict[str, Any]) -> dict[str, list[float]]:
    """The history of the first line with the rates of the lines after it."""
    rates = overview.get("rates", {})
    return {name: [*points, rates[name]][-_POINTS:] for name, points in history.items() if name in rates}
