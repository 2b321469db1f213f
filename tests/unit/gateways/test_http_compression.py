import contextlib
import gzip
import io
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from quiver.gateways.http.compression import (
    choose_encoding,
    compress,
    compress_whole,
    decompress,
    open_compressor,
)
from quiver.model.errors import InvalidRequest, RequestTooLarge, UnsupportedMediaType

LIMIT = 100_000


def open_zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()


OPENERS = {b"gzip": gzip.decompress, b"zstd": open_zstd}


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        (None, None),
        (b"", None),
        (b"identity", None),
        (b"br", None),
        (b"gzip", b"gzip"),
        (b"zstd", b"zstd"),
        (b"gzip, deflate, br, zstd", b"zstd"),
        (b"gzip, zstd;q=0.5", b"gzip"),
        (b"GZIP;Q=0.8", b"gzip"),
        (b"gzip;q=0", None),
        (b"*", b"zstd"),
        (b"*;q=0", None),
        (b"zstd;q=0, *;q=0.1", b"gzip"),
        (b"identity;q=1, gzip;q=0.5", None),
        (b"gzip;q=bad", None),
    ],
)
def test_the_encoding_follows_the_clients_weights(header, encoding):
    assert choose_encoding(header) == encoding


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
@pytest.mark.parametrize("size", [0, 10, 5_000, 500_000])
async def test_a_whole_response_opens_again(encoding, size):
    data = (b"some text that repeats " * (size // 20 + 1))[:size]
    assert OPENERS[encoding](await compress_whole(encoding, data)) == data


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
async def test_a_stream_of_pieces_opens_as_one(encoding):
    pieces = [b"a" * 10, b"b" * 100_000, b"", b"c"]
    compressor = open_compressor(encoding)
    sent = b"".join([await compress(compressor, piece) for piece in pieces]) + compressor.flush()
    assert OPENERS[encoding](sent) == b"".join(pieces)


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd", b" GZIP "])
async def test_a_compressed_request_is_opened(encoding):
    data = b"x" * LIMIT
    name = encoding.strip().lower()
    assert await decompress(encoding, await compress_whole(name, data), LIMIT) == data


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
async def test_a_request_never_opens_beyond_the_limit(encoding):
    bomb = await compress_whole(encoding, bytes(50_000_000))
    assert len(bomb) < LIMIT
    with pytest.raises(RequestTooLarge):
        await decompress(encoding, bomb, LIMIT)


async def test_a_zstd_window_beyond_reason_is_refused():
    params = zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    compressor = zstandard.ZstdCompressor(compression_params=params).compressobj()
    with pytest.raises(InvalidRequest):
        await decompress(b"zstd", compressor.compress(b"x" * 1000) + compressor.flush(), LIMIT)


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
@given(st.binary(min_size=1, max_size=200))
async def test_garbage_is_a_clear_error_or_opens(encoding, data):
    with contextlib.suppress(InvalidRequest, RequestTooLarge):
        assert len(await decompress(encoding, data, LIMIT)) <= LIMIT


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
async def test_a_body_that_is_cut_off_is_refused(encoding):
    whole = await compress_whole(encoding, b"0123456789" * 1000)
    with pytest.raises(InvalidRequest, match=encoding.decode()):
        await decompress(encoding, whole[:-4], LIMIT)


async def test_unknown_content_encodings_are_refused_by_name():
    with pytest.raises(UnsupportedMediaType, match="'br'"):
        await decompress(b"br", zlib.compress(b"x"), LIMIT)
    assert await decompress(b"identity", b"x", LIMIT) == b"x"
