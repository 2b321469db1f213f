"""Sends the spans of the topic of traces to a collector, as a reader with a group: it goes on where it was."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from quiver.cli.formats.otlp_format import otlp_document
from quiver.model.errors import InvalidRequest, MessageTimeout, QuiverError
from quiver.model.trace.span import Span
from quiver.system.backoff import Backoff

if TYPE_CHECKING:
    from quiver.client import Client

TRACES_TOPIC = "__traces"
_PATH = "/v1/traces"
_TIMEOUT_SECONDS = 10.0
_QUIET = "20s"
"""Nothing more came for so long: the last offsets have no messages."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_REFUSED = range(400, 429)
_decoder = msgspec.json.Decoder(Span)


class CollectorRefused(QuiverError):
    code, status = "collector_refused", 400
    sentence = "{url} refuses the spans ({problem}); is this the OTLP address of a collector?"


def collector_url(text: str) -> str:
    """The address of a collector, with the path of traces unless it has one."""
    if not text.startswith(("http://", "https://")):
        raise InvalidRequest(problem=f"{text!r} is not an address such as http://localhost:4318")
    return text if text.rstrip("/").endswith(_PATH) else text.rstrip("/") + _PATH


class TraceExport:
    """Batches are committed once the collector has taken them: a crash sends some of them again, with the same span
    ids."""

    def __init__(self, q: "Client", url: str, group: str, pause: Callable[[float], None]) -> None:
        self._q = q
        self._url = url
        self._group = group
        self._pause = pause
        self.exported = 0

    def run(self, *, follow: bool, on_retry: Callable[[str], None]) -> None:
        """Until everything is sent that is there now, or, with `follow`, without an end."""
        if TRACES_TOPIC not in self._q.topics.list():
            raise InvalidRequest(problem="there are no traces yet: no message was sampled")
        ends = self._q.offsets(TRACES_TOPIC, "latest")
        wait = None if follow else _QUIET
        with self._q.stream(TRACES_TOPIC, group=self._group, auto_commit=False, timeout=wait) as stream:
            batches = iter(stream.batches())
            while follow or any(at < ends[number] for (_, number), at in stream.positions.items()):
                try:
                    batch = next(batches)
                except MessageTimeout:
                    return
                spans = list(_spans(batch.column("value").to_pylist()))
                if spans:
                    self._send(spans, on_retry)
                    self.exported += len(spans)
                stream.commit()

    def _send(self, spans: list[Span], on_retry: Callable[[str], None]) -> None:
        """Repeats until the collector takes them."""
        body = msgspec.json.encode(otlp_document(spans))
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            try:
                self._post(body)
                return
            except urllib.error.HTTPError as error:
                if error.code in _REFUSED:
                    raise CollectorRefused(url=self._url, problem=f"{error.code} {error.reason}") from None
                problem = f"{error.code} {error.reason}"
            except OSError as error:
                problem = str(error)
            on_retry(problem)
            self._pause(backoff.next_seconds())

    def _post(self, body: bytes) -> None:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self._url, body, headers)  # noqa: S310 - the scheme was checked
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            answer.read()


def _spans(values: Iterable[Any]) -> Iterable[Span]:
    for value in values:
        try:
            yield _decoder.decode(value or b"")
        except msgspec.DecodeError:  # somebody else has published to the topic
            continue
