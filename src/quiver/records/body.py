"""From the stored bytes of a body to an Arrow record batch, without copying when they are not compressed.

Arrow checks that the metadata of its message is a sound flatbuffer. But it allocates what compressed buffers claim to
contain, and it accepts buffers that overlap. Both let a small body unpack to a large one, so both are refused here,
before Arrow opens the message.
"""

import struct

import pyarrow as pa

from quiver.model.errors import FrameTooLarge, InvalidFrame
from quiver.model.limits import Limits
from quiver.records.columns import Layout, layout_for
from quiver.records.flatbuffer import field, reference
from quiver.records.header import (
    COMPRESSION_LZ4,
    COMPRESSION_NONE,
    COMPRESSION_ZSTD,
    ENCODING_ARROW,
    ENCRYPTED,
    KNOWN_ATTRIBUTES,
    KNOWN_COLUMNS,
    FrameHeader,
)

_PREFIX = struct.Struct("<II")  # the continuation marker and the length of the metadata
_CONTINUATION = 0xFFFFFFFF
_U32 = struct.Struct("<I")
_I64 = struct.Struct("<q")

# Positions in the tables of Arrow's Message.fbs.
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = 1, 2, 3
_BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION = 1, 2, 3
_RECORD_BATCH = 3


def check_readable(header: FrameHeader, limits: Limits) -> None:
    """Raises InvalidFrame for a body that this version cannot read, FrameTooLarge for one that takes too much
    memory."""
    attributes = header.attributes
    if attributes & ~KNOWN_ATTRIBUTES or header.compression > COMPRESSION_ZSTD:
        raise InvalidFrame(problem=f"attributes {attributes:#06x} are not known")
    if attributes & ENCRYPTED:
        raise InvalidFrame(problem="encrypted bodies are not supported")
    if header.encoding != ENCODING_ARROW:
        raise InvalidFrame(problem=f"body encoding {header.encoding} is not known")
    if header.columns & ~KNOWN_COLUMNS:
        raise InvalidFrame(problem=f"columns {header.columns:#06x} are not known")
    stored = header.length - header.padding
    if header.compression == COMPRESSION_NONE:
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
    message = pa.py_buffer(body[: header.length - header.padding])
    if header.compression != COMPRESSION_NONE:
        message = _decompress(message, header.compression, header.uncompressed_length)
    if not trusted:
        _check_message(memoryview(message), layout)
    try:
        batch = pa.ipc.read_record_batch(message, layout.schema)
        if not trusted:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise InvalidFrame(problem=f"the body is not sound Arrow data ({error})") from error
    if batch.num_rows != header.record_count:
        raise InvalidFrame(problem=f"it has {batch.num_rows} messages, its header says {header.record_count}")
    return batch


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


def _check_message(message: memoryview, layout: Layout) -> None:
    """InvalidFrame unless this is one record batch message, without compressed or overlapping buffers.

    If a column allows no nulls, the metadata must say so. Everything else is left to Arrow's own checks.
    """
    try:
        _check_metadata(message, layout)
    except (struct.error, IndexError) as error:
        raise InvalidFrame(problem="the body is not an Arrow message: its metadata is cut off") from error


def _check_metadata(message: memoryview, layout: Layout) -> None:
    continuation, metadata_length = _PREFIX.unpack_from(message)
    if continuation != _CONTINUATION:
        raise InvalidFrame(problem="the body is not an Arrow message")
    body_position = _PREFIX.size + metadata_length
    metadata = message[_PREFIX.size : body_position]
    (root,) = _U32.unpack_from(metadata)
    header_type = field(metadata, root, _MESSAGE_HEADER_TYPE)
    if not header_type or metadata[header_type] != _RECORD_BATCH:
        raise InvalidFrame(problem="the body is not an Arrow record batch")
    length_at = field(metadata, root, _MESSAGE_BODY_LENGTH)
    body_length = _I64.unpack_from(metadata, length_at)[0] if length_at else 0
    if body_position + body_length != len(message):
        raise InvalidFrame(problem="the Arrow message does not end where the body ends")
    batch = reference(metadata, field(metadata, root, _MESSAGE_HEADER))
    if field(metadata, batch, _BATCH_COMPRESSION):
        raise InvalidFrame(problem="Arrow's own buffer compression is not supported; compress the whole body instead")
    _check_buffers(metadata, batch, layout.buffer_count, body_length)
    if layout.required_nodes:
        _check_nodes(metadata, batch, layout)


def _check_buffers(metadata: memoryview, batch: int, count: int, body_length: int) -> None:
    places = _pairs(metadata, field(metadata, batch, _BATCH_BUFFERS), count, "buffers")
    end = 0
    for index in range(0, 2 * count, 2):
        length = places[index + 1]
        if length:
            position = places[index]
            if length < 0 or position < end:
                raise InvalidFrame(problem="the buffers of the Arrow message do not follow one another")
            end = position + length
    if end > body_length:
        raise InvalidFrame(problem="the buffers of the Arrow message go beyond its end")


def _check_nodes(metadata: memoryview, batch: int, layout: Layout) -> None:
    nodes = _pairs(metadata, field(metadata, batch, _BATCH_NODES), layout.node_count, "arrays")
    for index in layout.required_nodes:
        if nodes[2 * index + 1]:
            raise InvalidFrame(problem="there are nulls where none are allowed (timestamp, offset_delta, header)")


def _pairs(metadata: memoryview, field: int, count: int, what: str) -> tuple[int, ...]:
    """The numbers of a vector of `count` structs of two int64."""
    vector = reference(metadata, field)
    (stored,) = _U32.unpack_from(metadata, vector)
    if stored != count:
        raise InvalidFrame(problem=f"the Arrow message has {stored} {what}, its columns need {count}")
    return struct.unpack_from(f"<{2 * count}q", metadata, vector + 4)
