"""Compression of a whole body: LZ4 frames and Zstandard."""

import pyarrow as pa

from quiver.model.errors import InvalidFrame, InvalidRequest
from quiver.records.header import COMPRESSION_LZ4, COMPRESSION_NONE, COMPRESSION_ZSTD

CODES = {"none": COMPRESSION_NONE, "lz4": COMPRESSION_LZ4, "zstd": COMPRESSION_ZSTD}
_NAMES = {COMPRESSION_LZ4: "lz4", COMPRESSION_ZSTD: "zstd"}


def compression_code(name: str) -> int:
    """The header's code for a codec; InvalidRequest for an unknown name."""
    code = CODES.get(name)
    if code is None:
        raise InvalidRequest(problem=f"compression {name!r} is not one of {', '.join(CODES)}")
    return code


def compress(data: pa.Buffer, code: int) -> pa.Buffer:
    return pa.Codec(_NAMES[code]).compress(data)


def decompress(data: pa.Buffer, code: int, length: int) -> pa.Buffer:
    """Exactly `length` bytes, or InvalidFrame. Allocates `length` and a constant: check `length` first."""
    try:
        if code == COMPRESSION_LZ4:
            # The one-shot LZ4 decoder fills a longer buffer only in part and does not say so. A stream tells.
            stream = pa.CompressedInputStream(pa.BufferReader(data), "lz4")
            plain = stream.read_buffer(length + 1)
        else:
            plain = pa.Codec("zstd").decompress(data, decompressed_size=length)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidFrame(problem=f"the body cannot be decompressed ({error})") from error
    if plain.size != length:
        raise InvalidFrame(problem=f"the body does not decompress to the {length} bytes that the header names")
    return plain
