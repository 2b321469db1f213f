"""gzip and zstd: answers when the client asks for it, request bodies within the size limit."""

import asyncio
import zlib
from typing import Protocol

import zstandard

from quiver.gateways.http.media import weighted
from quiver.model.errors import InvalidRequest, RequestTooLarge, UnsupportedMediaType

MIN_BYTES = 1024
"""Smaller answers are sent as they are."""
_INLINE_BYTES = 32 * 1024
"""More than this is compressed in a thread: both libraries let the event loop run meanwhile."""
_PIECE_BYTES = 256 * 1024
_GZIP_BITS = 16 + zlib.MAX_WBITS
_SUPPORTED = (b"zstd", b"gzip")


class Compressor(Protocol):
    """What zlib and zstandard offer for a stream."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def choose_encoding(accept_encoding: bytes | None) -> bytes | None:
    """b"zstd", b"gzip" or None, by the client's weights; zstd where it likes both the same."""
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


async def decompress(encoding: bytes, data: bytes, limit: int) -> bytes:
    """A request body opened, never beyond the limit."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return data
    if name not in _SUPPORTED:
        raise UnsupportedMediaType(
            f"content encoding {name[:50].decode('latin-1')!r} is not understood; send gzip, zstd or none"
        )
    opened = _open_gzip if name == b"gzip" else _open_zstd
    try:
        result = await asyncio.to_thread(opened, data, limit)
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise InvalidRequest(problem=f"the body is not {name.decode()}: {error}") from None
    if len(result) > limit:
        raise RequestTooLarge(size=f"over {limit}", limit=limit)
    return result


def _open_gzip(data: bytes, limit: int) -> bytes:
    opener = zlib.decompressobj(wbits=_GZIP_BITS)
    result = opener.decompress(data, limit + 1)
    if len(result) <= limit and not opener.eof:
        raise EOFError("it ends too early")
    return result


def _open_zstd(data: bytes, limit: int) -> bytes:
    """First counts what comes out, piece by piece, then opens it: only the second way tells a cut-off body."""
    # The window bounds what the decompressor itself allocates, whatever the frame header claims.
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**27)
    size = 0
    with decompressor.stream_reader(data) as reader:
        while piece := reader.read(_PIECE_BYTES):
            size += len(piece)
            if size > limit:
                raise RequestTooLarge(size=f"over {limit}", limit=limit)
    opener = decompressor.decompressobj()
    result = opener.decompress(data)
    if not opener.eof:
        raise EOFError("it ends too early")
    return result
