"""From the stored bytes of a body to an Arrow record batch, without copying when they are not compressed.

`message_check` refuses what Arrow itself would accept and must not, before Arrow opens the message.
"""

import pyarrow as pa

from quiver.model.errors import FrameTooLarge, InvalidFrame
from quiver.model.limits import Limits
from quiver.records.columns import layout_for
from quiver.records.header import (
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_NONE,
    COMPRESSION_ZSTD,
    ENCODING_ARROW,
    ENCODING_MASK,
    ENCODING_SHIFT,
    ENCRYPTED,
    KNOWN_ATTRIBUTES,
    KNOWN_COLUMNS,
    FrameHeader,
)
from quiver.records.message_check import check_message


def check_readable(header: FrameHeader, limits: Limits) -> None:
    """Raises InvalidFrame for a body that this version cannot read, FrameTooLarge for one that takes too much
    memory."""
    attributes = header.attributes
    compression = attributes & COMPRESSION_MASK
    if attributes & ~KNOWN_ATTRIBUTES or compression > COMPRESSION_ZSTD:
        raise InvalidFrame(problem=f"attributes {attributes:#06x} are not known")
    if attributes & ENCRYPTED:
        raise InvalidFrame(problem="encrypted bodies are not supported")
    if attributes >> ENCODING_SHIFT & ENCODING_MASK != ENCODING_ARROW:
        raise InvalidFrame(problem=f"body encoding {header.encoding} is not known")
    if header.columns & ~KNOWN_COLUMNS:
        raise InvalidFrame(problem=f"columns {header.columns:#06x} are not known")
    stored = header.length - header.padding
    if compression == COMPRESSION_NONE:
        if header.uncompressed_length != stored:
            raise InvalidFrame(problem="length and uncompressed length do not match")
    elif header.uncompressed_length > limits.frame_bytes:
        raise FrameTooLarge(size=header.uncompressed_length, limit=limits.frame_bytes)
    if stored <= 0:
        raise InvalidFrame(problem="it has no body")


def open_body(body: memoryview, header: FrameHeader, *, trusted: bool = False) -> pa.RecordBatch:
    """The record batch in a body; `check_readable` comes first.

    `trusted` leaves out the checks that keep a bad body from crashing a reader: only for bytes that once passed them.
    """
    layout = layout_for(header.columns)
    message = _message(body, header)
    if not trusted:
        check_message(memoryview(message), header.columns)
    try:
        batch = pa.ipc.read_record_batch(message, layout.schema)
        if not trusted:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise InvalidFrame(problem=f"the body is not sound Arrow data ({error})") from error
    if batch.num_rows != header.record_count:
        raise InvalidFrame(problem=f"it has {batch.num_rows} messages, its header says {header.record_count}")
    return batch


def uncompressed(body: memoryview, header: FrameHeader) -> memoryview:
    """The Arrow message in a body; `check_readable` comes first."""
    return memoryview(_message(body, header))


def _message(body: memoryview, header: FrameHeader) -> pa.Buffer:
    message = pa.py_buffer(body[: header.length - header.padding])
    if header.attributes & COMPRESSION_MASK != COMPRESSION_NONE:
        message = _decompress(message, header.compression, header.uncompressed_length)
    return message


def _decompress(data: pa.Buffer, code: int, length: int) -> pa.Buffer:
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
