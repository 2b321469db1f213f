"""Responses: objects, documents and streams, in the form and encoding the client asked for."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from quiver.gateways.http.compression import MIN_BYTES, choose_encoding, compress, compress_whole, open_compressor
from quiver.gateways.http.media import Media
from quiver.gateways.http.request import Request
from quiver.gateways.http.wire.exchange import Headers
from quiver.model.errors import MethodNotAllowed, QuiverError
from quiver.system.pace import Pace

_SENT_AT_ONCE_BYTES = 256 * 1024
_VARY = (b"vary", b"accept, accept-encoding")


class Response:
    """An object to be encoded as the client asked, or, with a content type, bytes that are sent as they are."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, body: Any, status: int = 200, *, content_type: bytes | None = None, headers: Headers = ()
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers


class StreamedResponse:
    """A response made while it is sent; the next piece is made when the client has taken the ones before it.

    A live one has no end of its own: each piece is sent as soon as it is there, so it is not compressed.
    """

    __slots__ = ("content_type", "is_live", "pieces")

    def __init__(self, pieces: AsyncGenerator[bytes, None], media: Media, *, is_live: bool = False) -> None:
        self.pieces = pieces
        self.content_type = media.content_type
        self.is_live = is_live


def error_response(error: QuiverError) -> Response:
    headers: list[tuple[bytes, bytes]] = []
    if error.retryable and error.status in (503, 507):
        headers.append((b"retry-after", b"1"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", str(error.details.get("allowed", "")).encode()))
    return Response(error.to_dict(), error.status, headers=headers)


def respond_at_once(request: Request, response: Response) -> None:
    """Sends a small response as it is, without compression."""
    media = request.response_media
    body = media.encode(response.body)
    request.exchange.respond(response.status, [(b"content-type", media.content_type), *response.headers], body)


async def send_response(request: Request, response: Response | StreamedResponse) -> None:
    if isinstance(response, StreamedResponse):
        await _send_stream(request, response)
        return
    if response.content_type is None:
        media = request.response_media
        content_type, body = media.content_type, media.encode(response.body)
    else:
        content_type, body = response.content_type, response.body
    headers = [(b"content-type", content_type), *response.headers]
    if len(body) >= MIN_BYTES:
        headers.append(_VARY)
        encoding = choose_encoding(request.headers.get(b"accept-encoding"))
        if encoding is not None:
            body = await compress_whole(encoding, body)
            headers.append((b"content-encoding", encoding))
    if len(body) <= _SENT_AT_ONCE_BYTES:
        request.exchange.respond(response.status, headers, body)
        return
    request.hold(len(body))
    if request.exchange.begin(response.status, headers, len(body)):
        for start in range(0, len(body), _SENT_AT_ONCE_BYTES):
            await request.exchange.send(body[start : start + _SENT_AT_ONCE_BYTES])
        request.exchange.end()


async def _send_stream(request: Request, response: StreamedResponse) -> None:
    """Sends piece by piece; `send` waits while the client's share of unread bytes is full."""
    headers = [(b"content-type", response.content_type), _VARY]
    encoding = None if response.is_live else choose_encoding(request.headers.get(b"accept-encoding"))
    if encoding is not None:
        headers.append((b"content-encoding", encoding))
    exchange = request.exchange
    if not exchange.begin(200, headers):
        return
    compressor = open_compressor(encoding) if encoding is not None else None
    pace = Pace()
    async with aclosing(response.pieces) as pieces:
        async for piece in pieces:
            await pace.turn()
            await exchange.send(await compress(compressor, piece) if compressor is not None else piece)
    if compressor is not None:
        await exchange.send(compressor.flush())
    exchange.end()
