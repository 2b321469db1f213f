"""gzip and zstd: responses when the client asks for it, request bodies within the size limit."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import zstandard

from quiver.gateways.http.media import weighted
from quiver.model.errors import InvalidRequest, RequestTooLarge, UnsupportedMediaType

MIN_BYTES = 1024
"""Smaller responses are sent as they are."""
_INLINE_BYTES = 32 * 1024
"""More than this is compressed in a thread: both libraries let the event loop run meanwhile."""
_PIECE_BYTES = 64 * 1024
_GZIP_BITS = 16 + zlib.MAX_WBITS
_SUPPORTED = (b"zstd", b"gzip")


class Compressor(Protocol):
    """What zlib and zstandard offer for a stream."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def choose_encoding(accept_encoding: bytes | None) -> bytes | None:
    """b"zstd", b"gzip" or None, by the client's weights; zstd where both weigh the same."""
    if not accept_encoding:
        return None
    weights = dict(weighted(accept_encoding))
    anything = weights.get(b"*", 0.0)
    best = max(_SUPPORTED, key=lambda name: weights.get(name, anything))
    weight = weights.get(best, anything)
    return best if weight > 0 and weight >= weights.get(b"identity", 0.0) else None


def open_compressor(encoding: bytes) -> Compressor:
    if encoding == b"zstd":
        return zstandard.ZstdCompressor(level=3).compressobj()
    return zlib.compressobj(level=5, wbits=_GZIP_BITS)


async def compress(compressor: Compressor, data: bytes) -> bytes:
    """One piece of a stream compressed, without holding the event loop."""
    if len(data) <= _INLINE_BYTES:
        return compressor.compress(data)
    return await asyncio.to_thread(compressor.compress, data)


async def compress_whole(encoding: bytes, data: bytes) -> bytes:
    compressor = open_compressor(encoding)
    return await compress(compressor, data) + compressor.flush()


async def decompress(
    encoding: bytes, data: bytes, limit: int, hold: Callable[[int], Awaitable[None]] | None = None
) -> bytes:
    """A request body decompressed, never beyond the limit. `hold` reserves the memory before it is allocated."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return data
    if name not in _SUPPORTED:
        raise UnsupportedMediaType(
            f"content encoding {name[:50].decode('latin-1')!r} is not understood; send gzip, zstd or none"
        )
    measured, opened = (_gzip_pieces, _open_gzip) if name == b"gzip" else (_zstd_pieces, _open_zstd)
    try:
        pieces = measured(data)
        size = len(next(pieces, b""))
        if size == _PIECE_BYTES:  # there may be much more, and counting that takes its time
            size += await asyncio.to_thread(_count, pieces, limit)
        if size > limit:
            raise RequestTooLarge(size=f"over {limit}", limit=limit)
        if hold is not None:
            await hold(size)
        return opened(data) if size < _PIECE_BYTES else await asyncio.to_thread(opened, data)
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise InvalidRequest(problem=f"the body is not {name.decode()}: {error}") from None


def _count(pieces: Iterator[bytes], limit: int) -> int:
    """How much comes out, as far as the limit."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            break
    return size


def _gzip_pieces(data: bytes) -> Iterator[bytes]:
    opener = zlib.decompressobj(wbits=_GZIP_BITS)
    while not opener.eof and (piece := opener.decompress(data, _PIECE_BYTES)):
        yield piece
        data = opener.unconsumed_tail


def _open_gzip(data: bytes) -> bytes:
    opener = zlib.decompressobj(wbits=_GZIP_BITS)
    result = opener.decompress(data)
    if not opener.eof:
        raise EOFError("it ends too early")
    return result


def _zstd_pieces(data: bytes) -> Iterator[bytes]:
    with _zstd().stream_reader(data) as reader:
        while piece := reader.read(_PIECE_BYTES):
            yield piece


def _open_zstd(data: bytes) -> bytes:
    opener = _zstd().decompressobj()
    result = opener.decompress(data)
    if not opener.eof:
        raise EOFError("it ends too early")
    return result


def _zstd() -> zstandard.ZstdDecompressor:
    """The window bounds what the decompressor itself allocates, whatever the frame header claims."""
    return zstandard.ZstdDecompressor(max_window_size=2**23)
