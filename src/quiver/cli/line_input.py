"""Messages from lines of text: standard input and files, in chunks, with bounded memory."""

import os
import stat
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from quiver.model.errors import InvalidRequest, MessageTooLarge
from quiver.model.limits import MIB

CHUNK_BYTES = MIB
MAX_LINE_BYTES = 64 * MIB


def read_chunks(file: BinaryIO) -> Iterator[tuple[list[bytes], int]]:
    """Whole lines as they arrive, without their line ends, and the bytes they took; a last line may lack its end."""
    read = getattr(file, "read1", file.read)
    parts: list[bytes] = []
    waiting = 0
    while chunk := read(CHUNK_BYTES):
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            parts.append(chunk)
            waiting += len(chunk)
            _check_line(waiting)
            continue
        text = b"".join((*parts, head))
        yield text.split(b"\n"), len(text) + 1
        parts, waiting = ([tail], len(tail)) if tail else ([], 0)
    if parts:
        text = b"".join(parts)
        yield [text], len(text)


def _check_line(size: int) -> None:
    if size > MAX_LINE_BYTES:
        raise MessageTooLarge(size=size, limit=MAX_LINE_BYTES)


def split_keys(lines: list[bytes], separator: bytes) -> tuple[list[bytes | None], list[bytes]]:
    """Keys and values of lines such as `key<separator>value`; a line without the separator is an error."""
    keys: list[bytes | None] = []
    values: list[bytes] = []
    for line in lines:
        key, found, value = line.partition(separator)
        if not found:
            shown = line[:60].decode(errors="replace")
            raise InvalidRequest(problem=f"the line {shown!r} has no key separator {separator.decode()!r}")
        keys.append(key)
        values.append(value)
    return keys, values


def known_size(files: Sequence[BinaryIO]) -> int | None:
    """Bytes left to read in all files; None when one is not a regular file."""
    total = 0
    for file in files:
        try:
            status = os.fstat(file.fileno())
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += max(0, status.st_size - file.tell())
    return total
