"""The chunks of snapshots: what comes out is what went in, and nothing is read from one that is cut off."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.storage.snapshot_chunks import chunk, chunks

CONTENTS = st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=5)


@given(CONTENTS)
def test_chunks_come_back_in_order(contents: list[list[int]]) -> None:
    data = b"".join(chunk(content) for content in contents)
    assert [msgspec.msgpack.decode(stored) for stored in chunks(data)] == contents


@pytest.mark.parametrize("cut", range(1, len(chunk([1, 2, 3]))))
def test_a_chunk_that_is_cut_off_is_refused(cut: int) -> None:
    data = chunk("whole") + chunk([1, 2, 3])[:-cut]
    with pytest.raises(ValueError, match="cut off"):
        list(chunks(data))
