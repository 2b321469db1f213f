"""Lines of standard input and files as messages."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.cli import line_input
from quiver.cli.line_input import known_size, read_chunks, split_keys
from quiver.model.errors import InvalidRequest, MessageTooLarge


class Dribble(io.RawIOBase):
    """Gives its bytes in pieces of the sizes it was told."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes = data, sizes

    def read(self, size: int = -1) -> bytes:
        step = min(size, self.sizes.pop(0) if self.sizes else size)
        piece, self.data = self.data[:step], self.data[step:]
        return piece


def lines_of(data: bytes, sizes: list[int] | None = None) -> list[bytes]:
    return [line for lines, _ in read_chunks(Dribble(data, sizes or [])) for line in lines]  # type: ignore[arg-type]


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    st.lists(st.integers(1, 30), max_size=20),
    st.booleans(),
)
def test_lines_are_whole_however_the_bytes_arrive(lines: list[bytes], sizes: list[int], ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert lines_of(data, sizes) == expected


@given(st.binary(max_size=200), st.lists(st.integers(1, 30), max_size=20))
def test_every_byte_read_is_counted(data: bytes, sizes: list[int]) -> None:
    counted = sum(size for _, size in read_chunks(Dribble(data, sizes)))  # type: ignore[arg-type]
    assert counted == len(data)


def test_a_carriage_return_belongs_to_the_message() -> None:
    assert lines_of(b"a\r\nb") == [b"a\r", b"b"]


def test_a_line_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_input, "MAX_LINE_BYTES", 100)
    with pytest.raises(MessageTooLarge):
        lines_of(b"x" * 200, [50, 50, 50, 50])


def test_keys_are_what_stands_before_the_first_separator() -> None:
    assert split_keys([b"k:v:w", b":v"], b":") == ([b"k", b""], [b"v:w", b"v"])


def test_a_line_without_separator_is_refused_and_shown() -> None:
    with pytest.raises(InvalidRequest, match="no key here"):
        split_keys([b"no key here"], b":")


def test_the_size_is_known_for_regular_files_only(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"12345678")
    reader, writer = os.pipe()
    with path.open("rb") as file, os.fdopen(reader, "rb") as pipe:
        os.close(writer)
        file.read(3)
        assert known_size([file]) == 5
        assert known_size([file, pipe]) is None
    assert known_size([io.BytesIO(b"abc")]) is None
