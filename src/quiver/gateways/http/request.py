"""A request as handlers see it: path, query and body, checked and decoded."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from quiver.gateways.http.compression import decompress
from quiver.gateways.http.media import Media, media_of_request, media_of_response
from quiver.gateways.http.wire.exchange import ClientGone, Exchange
from quiver.model.errors import InvalidRequest, Overloaded, RequestTooLarge
from quiver.model.limits import HTTP_QUERY_FIELDS, KIB
from quiver.model.names import check_name
from quiver.model.numbers import shown, whole_number
from quiver.system.memory_budget import MemoryBudget
from quiver.telemetry.gateway_counts import OperationCounts

T = TypeVar("T")
_VERSION = "/v1"
_SHOWN_PATH = 200
_SMALL_HEAD_BYTES = 4 * KIB
_SMALL_BODY_BYTES = 64 * KIB

_HIGHEST_PARTITION = 10**9
_WAIT_SECONDS = 5.0
"""How long a body waits for memory that others hold; then its client is told to try again."""


def without_version(path: str) -> str:
    """Every route also exists under /v1."""
    if path.startswith(_VERSION) and path[len(_VERSION) : len(_VERSION) + 1] in ("/", ""):
        return path[len(_VERSION) :] or "/"
    return path


@lru_cache(maxsize=1024)
def _topic_name(quoted: str) -> str:
    return check_name(unquote(quoted))


def _check_values(fields: Mapping[str, str], kind: Any) -> None:
    for field in msgspec.structs.fields(kind):
        if fields.get(field.encode_name) == "":
            raise InvalidRequest(problem=f"{field.encode_name} in the query has no value: give one or leave it out")


def _empty(kind: type[T]) -> T:
    try:
        return msgspec.convert({}, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(problem=f"the request has no body: {error}") from None


def partition_number(text: str | int) -> int:
    number = whole_number(str(text))
    if number is None or number > _HIGHEST_PARTITION:
        raise InvalidRequest(problem=f"{shown(text)} is not a partition: partitions are numbered from 0")
    return number


class Request:
    """One request. `params` are the quoted parts of the path that the route names."""

    __slots__ = (
        "_holding",
        "_if_unsent",
        "_max_bytes",
        "counts",
        "exchange",
        "failure",
        "headers",
        "method",
        "params",
        "path",
        "query_string",
        "read",
        "route",
        "started",
        "waits",
    )

    def __init__(self, exchange: Exchange, max_bytes: int, budget: MemoryBudget) -> None:
        head = exchange.head
        self.exchange = exchange
        self.method = head.method
        self.path = without_version(head.path)
        """As it was sent, so that a quoted slash stays inside its part."""
        self.headers = head.headers
        self.query_string = head.query
        self.params: Mapping[str, str] = {}
        self.route = ""
        self.waits = False
        """It asks the broker to wait for something, so it may take long."""
        self.read: Any = None
        """What `body_at_once` has read."""
        self.started = 0.0
        """When it was begun."""
        self.counts: OperationCounts | None = None
        """Where it is counted; None before it is known what it asks for."""
        self.failure = ""
        """The code of the error that it is answered with."""
        self._max_bytes = max_bytes
        self._holding = budget.open()
        self._if_unsent: Callable[[], object] | None = None

    @property
    def media(self) -> Media:
        """The form of the body."""
        return media_of_request(self.headers.get(b"content-type"))

    @property
    def response_media(self) -> Media:
        """The form of the response, also where the request's own form is not understood."""
        content_type = self.headers.get(b"content-type", b"")
        asked = media_of_request(content_type if b"msgpack" in content_type else None)
        return media_of_response(self.headers.get(b"accept"), asked)

    @property
    def connection(self) -> str:
        """Address and port at the other end."""
        return self.exchange.peer

    @property
    def shown_path(self) -> str:
        """For log lines."""
        return self.path[:_SHOWN_PATH]

    def topic(self) -> str:
        """The topic the path names; InvalidName when it cannot be one."""
        return _topic_name(self.params["topic"])

    def partition(self) -> int:
        """The partition the path names."""
        return partition_number(unquote(self.params["partition"]))

    def query(self, kind: type[T]) -> T:
        """The query string as a struct; unknown names are ignored, a known one needs a value."""
        fields: dict[str, str] = {}
        if self.query_string:
            text = self.query_string.decode("latin-1")
            try:
                fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=HTTP_QUERY_FIELDS))
            except ValueError as error:
                raise InvalidRequest(problem=f"the query string cannot be read: {error}") from None
        if "" in fields.values():
            _check_values(fields, kind)
        try:
            return msgspec.convert(fields, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidRequest(problem=f"the query does not fit: {error}") from None

    async def body(self, kind: type[T]) -> T:
        """The body as a struct; an empty body counts as an empty object."""
        media = self.media
        content = await self.content()
        return media.decode(content, kind) if content else _empty(kind)

    def body_at_once(self, kind: type[T]) -> T | None:
        """A small body that is there and not compressed, as a struct; None for others: they need waiting."""
        if b"content-encoding" in self.headers:
            return None
        media, content = self.media, self.exchange.take_whole(min(_SMALL_BODY_BYTES, self._max_bytes))
        if content is None:
            return None
        try:
            self._holding.take(len(content))
        except Overloaded:
            self.exchange.arrived(content)  # taken again when there is room
            return None
        self._holding.end_request()
        self.read = found = media.decode(content, kind)
        return found

    async def content(self) -> bytes:
        """The bytes of the body, opened if they were compressed. The limit is checked before they are read."""
        declared = self.headers.get(b"content-length")
        if declared is not None and int(declared) > self._max_bytes:
            raise RequestTooLarge(size=int(declared), limit=self._max_bytes)
        content = await self._read()
        self._holding.end_request()
        encoding = self.headers.get(b"content-encoding")
        if encoding is None or not content:
            return content
        opened = await decompress(encoding, content, self._max_bytes, self._hold_or_wait)
        self._holding.resize(len(opened))
        return opened

    async def _read(self) -> bytes:
        exchange = self.exchange
        pieces: list[bytes] = []
        size = 0
        while True:
            is_whole, piece = exchange.is_whole, exchange.take()
            size += len(piece)
            if size > self._max_bytes:
                raise RequestTooLarge(size=f"over {self._max_bytes}", limit=self._max_bytes)
            await self._hold_or_wait(len(piece))
            if is_whole and not pieces:
                return piece
            pieces.append(piece)
            if is_whole:
                return b"".join(pieces)
            await exchange.more()

    async def _hold_or_wait(self, size: int) -> None:
        """Counts what has arrived; nothing more of the request is read until there is room for it."""
        if not self._holding.admits(size):
            room = asyncio.Event()
            self._holding.when_admitted(room.set, size)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(room.wait(), _WAIT_SECONDS)
        self._holding.take(size)

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that may take long. It is cancelled when the client goes away: that is ClientGone."""
        task = asyncio.current_task()
        if task is None or self.exchange.is_lost:
            work.close()
            raise ClientGone
        self.exchange.when_lost(task.cancel)
        try:
            return await work
        except asyncio.CancelledError:
            if self.exchange.is_lost and not task.uncancel():
                raise ClientGone from None
            raise
        finally:
            self.exchange.when_lost(None)

    def if_unsent(self, take_back: Callable[[], object]) -> None:
        """What is called at the end if nothing of the response has left: its client went away, or gets an error."""
        self._if_unsent = take_back

    def hold_head(self) -> None:
        """Counts a large head, which stays as long as the request."""
        if self.exchange.head.size_bytes > _SMALL_HEAD_BYTES:
            self.hold(self.exchange.head.size_bytes)

    def hold(self, size: int) -> None:
        """Counts memory that this request needs until its response is sent; Overloaded when there is no room."""
        self._holding.take(size)

    def check_room(self) -> None:
        """Overloaded when there is no room for any response."""
        self._holding.check()

    def release(self) -> None:
        """Gives back what was held, and what did not leave."""
        self._holding.close()
        has_left = self.exchange.status and not self.failure and self.method != "HEAD"
        if self._if_unsent is not None and not has_left:
            self._if_unsent()
