"""The state of the workers: one line that is updated on a terminal, a line every ten seconds elsewhere."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quiver.system.clock import Clock

if TYPE_CHECKING:
    from quiver.client.work.worker_counters import WorkerCounters

_RATE_SECONDS = 5.0
_LINE_SECONDS = 10.0

Show = Callable[["WorkerCounters"], None]


class StatusText:
    """Counts, and the rate over the last seconds."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock.monotonic(), 0)])

    def of(self, counters: "WorkerCounters") -> str:
        done = counters.processed + counters.failed + counters.rejected
        now = self._clock.monotonic()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _RATE_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        rate = (done - before) / (now - since) if now > since else 0.0
        text = f"{self._what}: {counters.processed:,} processed, {rate:,.0f}/s, {counters.failed:,} failed"
        if counters.rejected:
            text += f", {counters.rejected:,} rejected"
        if counters.lost:
            text += f", {counters.lost:,} lost"
        return f"{text}, {counters.in_flight} in flight"


@contextmanager
def status(what: str, clock: Clock, *, is_terminal: bool | None = None) -> Iterator[Show]:
    """Gives what shows the counters on standard error; log messages go there too."""
    text = StatusText(what, clock)
    if not (sys.stderr.isatty() if is_terminal is None else is_terminal):
        with _logged():
            yield _every(_LINE_SECONDS, clock, lambda counters: print(text.of(counters), file=sys.stderr, flush=True))
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), auto_refresh=False) as live, _logged():
        yield lambda counters: live.update(Text(text.of(counters)), refresh=True)


def _every(seconds: float, clock: Clock, show: Show) -> Show:
    shown_at = clock.monotonic()

    def show_sometimes(counters: "WorkerCounters") -> None:
        nonlocal shown_at
        if clock.monotonic() - shown_at >= seconds:
            shown_at = clock.monotonic()
            show(counters)

    return show_sometimes


@contextmanager
def _logged() -> Iterator[None]:
    """Log messages of handlers, and warnings of the SDK, go to standard error, unless their module saw to it."""
    root = logging.getLogger()
    if root.handlers:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("quiver.client").setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
