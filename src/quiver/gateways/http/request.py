"""A request as handlers see it: path, query and body, checked and decoded."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from quiver.gateways.http.compression import decompress
from quiver.gateways.http.media import Media, media_of_request, media_of_response
from quiver.model.errors import InvalidRequest, RequestTooLarge
from quiver.model.limits import HTTP_QUERY_FIELDS
from quiver.model.names import check_name
from quiver.model.numbers import shown, whole_number
from quiver.system.memory_budget import MemoryBudget

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HIGHEST_PARTITION = 10**9
_WAIT_SECONDS = 5.0
"""How long a body waits for memory that others hold; then its client is told to try again."""


def _check_values(fields: Mapping[str, str], kind: Any) -> None:
    for field in msgspec.structs.fields(kind):
        if fields.get(field.encode_name) == "":
            raise InvalidRequest(problem=f"{field.encode_name} in the query has no value: give one or leave it out")


def _empty(kind: type[T]) -> T:
    try:
        return msgspec.convert({}, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(problem=f"the request has no body: {error}") from None


class ClientGone(Exception):
    """The client went away while its body was being read; nobody is left to respond to."""


def partition_number(text: str | int) -> int:
    number = whole_number(str(text))
    if number is None or number > _HIGHEST_PARTITION:
        raise InvalidRequest(problem=f"{shown(text)} is not a partition: partitions are numbered from 0")
    return number


class Request:
    """One request. `params` are the quoted parts of the path that the route names."""

    __slots__ = (
        "_client",
        "_holding",
        "_max_bytes",
        "_receive",
        "headers",
        "method",
        "params",
        "path",
        "query_string",
        "route",
        "waits",
    )

    def __init__(self, scope: Scope, receive: Receive, max_bytes: int, budget: MemoryBudget) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.query_string: bytes = scope["query_string"]
        self.params: dict[str, str] = {}
        self.route = ""
        self.waits = False
        """It asks the broker to wait for something, so it may take long."""
        self._client: tuple[str, int] | None = scope.get("client")
        self._receive = receive
        self._max_bytes = max_bytes
        self._holding = budget.open()

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
        return "unknown" if self._client is None else f"{self._client[0]}:{self._client[1]}"

    def topic(self) -> str:
        """The topic the path names; InvalidName when it cannot be one."""
        return check_name(unquote(self.params["topic"]))

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
        event = await self._receive()
        if not event.get("more_body"):
            return await self._piece(event)
        pieces = [await self._piece(event)]
        while event.get("more_body"):
            event = await self._receive()
            pieces.append(await self._piece(event))
        return b"".join(pieces)

    async def _piece(self, event: MutableMapping[str, Any]) -> bytes:
        if event["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = event.get("body", b"")
        if self._holding.held_bytes + len(piece) > self._max_bytes:
            raise RequestTooLarge(size=f"over {self._max_bytes}", limit=self._max_bytes)
        await self._hold_or_wait(len(piece))
        return piece

    async def _hold_or_wait(self, size: int) -> None:
        """Counts what has arrived; nothing more of the request is read until there is room for it."""
        if not self._holding.admits(size):
            room = asyncio.Event()
            self._holding.when_admitted(room.set, size)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(room.wait(), _WAIT_SECONDS)
        self._holding.take(size)

    async def client_gone(self) -> None:
        """Returns when the client has gone away; for responses that take long. Read the body first."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def hold(self, size: int) -> None:
        """Counts memory that this request needs until its response is sent; Overloaded when there is no room."""
        self._holding.take(size)

    def check_room(self) -> None:
        """Overloaded when there is no room for any response."""
        self._holding.check()

    def release(self) -> None:
        """Gives back what was held."""
        self._holding.close()
